package indexer

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A window is a span being fetched. Its parts arrive in order, and then the channel is closed. At most one of them waits.
type window struct {
	span
	parts chan *blocks
}

// followed is the maximum distance to the head, in blocks, at which every header is read.
const followed = 16

// fill advances the store over a span. Windows are fetched concurrently and applied in order.
func (x *Indexer) fill(ctx context.Context, cursor ledger.Cursor, s span) error {
	all := task{span: s, parent: cursor.Hash, whole: s.blocks() <= followed}
	held := 0 // without a second endpoint, nothing is compared
	if x.pool.Trusted() > 1 {
		held = heldParts
	}
	events := x.o.Memory.Open("", true) // memory of the events that are not applied yet
	defer events.Close()
	group, ctx := errgroup.WithContext(ctx)
	windows := make(chan window, x.o.Parallel-1) // inOrder holds one more
	parts, gathered := make(chan *blocks), make(chan *blocks)
	group.Go(func() error { return x.fetchAhead(ctx, group, all, events, windows) })
	group.Go(func() error { return inOrder(ctx, windows, parts) })
	group.Go(func() error { return x.guard(func() error { return gather(ctx, parts, gathered, held) }) })
	group.Go(func() error {
		for b := range gathered {
			if err := x.guard(func() error { return x.apply(ctx, cursor, b) }); err != nil {
				return err
			}
			events.Release(b.held)
			cursor = b.last
		}
		return nil
	})
	return group.Wait()
}

// fetchAhead starts to fetch windows. The channel's capacity limits their number.
func (x *Indexer) fetchAhead(ctx context.Context, group *errgroup.Group, t task, events *account.Hold, windows chan<- window) error {
	defer close(windows)
	for t.from <= t.to {
		size, _ := x.pool.Window()
		w := window{span{t.from, min(t.to, t.from+size-1)}, make(chan *blocks)}
		part := task{w.span, t.parent, t.whole}
		if err := send(ctx, windows, w); err != nil {
			return err
		}
		group.Go(func() error {
			defer close(w.parts)
			return x.guard(func() error { return x.fetch(ctx, part, events, w.parts) })
		})
		t.from, t.parent = w.to+1, ledger.Hash{}
	}
	return nil
}

// apply counts the events of b and applies them to the store.
func (x *Indexer) apply(ctx context.Context, cursor ledger.Cursor, b *blocks) (err error) {
	ctx, traced := x.startTrace(ctx, "indexer.apply", b.span)
	defer func() { endTrace(traced, b, err) }()
	if err := x.pool.Unreliable(); err != nil {
		return err
	}
	if x.o.Strict && cursor.Incomplete {
		return ErrIncomplete
	}
	if cursor.Chain != 0 && b.parent != cursor.Hash {
		return fmt.Errorf("%w: the parent of block %d is %v, and block %d is %v", errInconsistent, b.from, b.parent, cursor.Block, cursor.Hash)
	}
	t, ignored, err := x.tally(ctx, b)
	if err != nil {
		return err
	}
	t.OnlyEmpty = cursor.Chain == 0 && x.o.From == 0 // an import may have ended since start
	counts := len(t.Changes)+len(t.Learned.IPs)+len(t.Learned.Disputes) > 0
	if err := x.confirm(ctx, cursor, b, counts); err != nil {
		return err
	}
	if err := x.o.Store.Apply(ctx, cursor, t); err != nil {
		return fmt.Errorf("blocks %d to %d: %w", b.from, b.to, err)
	}
	if !b.whole && !b.compared {
		x.mu.Lock()
		x.counted[b.source] = true
		x.mu.Unlock()
	}
	x.metrics.countLogs(b.events, ignored)
	x.status.change(func(s *Status) {
		b.last.Incomplete = s.Cursor.Incomplete
		s.Cursor, s.Logs = b.last, s.Logs+int64(len(b.events))
	})
	x.setErr(nil)
	return nil
}

func diverged(at ledger.Cursor, now ledger.Hash) error {
	return fmt.Errorf("%w: block %d of chain %d was %v and is now %v; the store is unchanged. If the chain was restarted, use another store",
		ErrDiverged, at.Block, at.Chain, at.Hash, now)
}

// maxGathered is the maximum number of events in joined parts.
const maxGathered = 50_000

// inOrder forwards the parts of windows in order. It ends with the last window, or at a missing part, whose fetch returns
// the error.
func inOrder(ctx context.Context, windows <-chan window, parts chan<- *blocks) error {
	defer close(parts)
	for w := range windows {
		at := w.from - 1
		for b := range w.parts {
			if err := send(ctx, parts, b); err != nil {
				return err
			}
			at = b.to
		}
		if at != w.to {
			return nil
		}
	}
	return nil
}

// gather joins parts that arrive while others are being applied, so that one transaction writes each changed collection
// once. Parts without events wait until there are as many as held, and are not joined with more, so that one request
// compares all of them if each part is one span. 0 means no limit.
func gather(ctx context.Context, parts <-chan *blocks, gathered chan<- *blocks, held int) error {
	defer close(gathered)
	var pending *blocks
	for {
		ready, empty := gathered, pending != nil && !pending.whole && len(pending.events) == 0
		if pending == nil || empty && len(pending.parts) < held {
			ready = nil
		}
		full := empty && held > 0 && len(pending.parts) >= held
		select {
		case b, more := <-parts:
			if more && !full && pending.join(b) {
				continue
			}
			if pending != nil {
				if err := send(ctx, gathered, pending); err != nil {
					return err
				}
			}
			if pending = b; !more {
				return nil
			}
		case ready <- pending:
			pending = nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// join appends the following blocks and reports whether it did. It does not if there would be too many events, or if they
// come from another endpoint or do not continue b. apply reports the latter as an error.
func (b *blocks) join(next *blocks) bool {
	if b == nil || len(b.events)+len(next.events) > maxGathered || next.source != b.source || next.parent != b.last.Hash {
		return false
	}
	b.to, b.last, b.whole = next.to, next.last, b.whole && next.whole
	b.events, b.parts, b.calls = append(b.events, next.events...), append(b.parts, next.parts...), append(b.calls, next.calls...)
	b.held += next.held
	return true
}

func send[T any](ctx context.Context, to chan<- T, value T) error {
	select {
	case to <- value:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
