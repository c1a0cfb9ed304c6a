package indexer

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/upstream/ledger"
)

// A fetching is a window under way. Its parts come in order; the channel is
// closed after the last one, or when the fetch failed.
type fetching struct {
	span
	parts chan *blocks
}

// maxParts is how far the fetch of a window may run ahead when the endpoint only
// gives small parts.
const maxParts = 64

// round takes the store from its cursor through a span: windows are fetched
// ahead, a bounded number at once, and taken over in order.
func (x *Indexer) round(ctx context.Context, cursor ledger.Cursor, s span) error {
	group, ctx := errgroup.WithContext(ctx)
	windows := make(chan fetching, x.o.Ahead-1) // one more is being handed on
	parts, gathered := make(chan *blocks), make(chan *blocks)
	group.Go(func() error { return x.fetchAhead(ctx, group, s, windows) })
	group.Go(func() error { return inOrder(ctx, windows, parts) })
	group.Go(func() error { return gather(ctx, parts, gathered) })
	group.Go(func() error {
		for b := range gathered {
			if err := x.apply(ctx, cursor, b); err != nil {
				return err
			}
			cursor = b.last
		}
		return nil
	})
	return group.Wait()
}

// fetchAhead has windows fetched, as many at once as the channel takes.
func (x *Indexer) fetchAhead(ctx context.Context, group *errgroup.Group, s span, windows chan<- fetching) error {
	defer close(windows)
	for s.from <= s.to {
		size, _ := x.pool.Window()
		w := fetching{span{s.from, min(s.to, s.from+size-1)}, make(chan *blocks, maxParts)}
		select {
		case windows <- w:
		case <-ctx.Done():
			return ctx.Err()
		}
		group.Go(func() error {
			defer close(w.parts)
			return x.fetch(ctx, w.span, w.parts)
		})
		s.from = w.to + 1
	}
	return nil
}

// apply has the store take over a part.
func (x *Indexer) apply(ctx context.Context, cursor ledger.Cursor, b *blocks) (err error) {
	ctx, traced := x.startTrace(ctx, "indexer.apply", b.span)
	defer func() { endTrace(traced, b, err) }()
	if cursor.Chain != 0 && b.parent != cursor.Hash {
		return diverged(cursor, b.parent)
	}
	t, ignored, err := x.tally(ctx, b)
	if err != nil {
		return err
	}
	if err := x.o.Store.Apply(ctx, cursor, t); err != nil {
		return fmt.Errorf("blocks %d to %d: %w", b.from, b.to, err)
	}
	x.metrics.counted(b.events, ignored)
	x.status.change(func(s *Status) { s.Cursor, s.Logs = b.last, s.Logs+int64(len(b.events)) })
	return nil
}

func diverged(at ledger.Cursor, now ledger.Hash) error {
	return fmt.Errorf("%w: block %d of chain %d was %v and is now %v; nothing was changed. A chain that began anew needs a store of its own",
		ErrDiverged, at.Block, at.Chain, at.Hash, now)
}
