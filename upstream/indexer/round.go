package indexer

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/upstream"
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
func (x *Indexer) round(ctx context.Context, cursor upstream.Cursor, s span) error {
	group, ctx := errgroup.WithContext(ctx)
	ahead := make(chan fetching, x.o.Ahead-1) // one more is being taken over
	group.Go(func() error {
		defer close(ahead)
		for s.from <= s.to {
			w := fetching{span{s.from, min(s.to, s.from+x.fleet.window()-1)}, make(chan *blocks, maxParts)}
			select {
			case ahead <- w:
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
	})
	group.Go(func() error {
		for w := range ahead {
			for b := range w.parts {
				if err := x.take(ctx, cursor, b); err != nil {
					return err
				}
				cursor = b.last
			}
			if cursor.Block != w.to {
				return nil // the fetch failed, and tells why
			}
		}
		return nil
	})
	return group.Wait()
}

// take has the store take over a part.
func (x *Indexer) take(ctx context.Context, cursor upstream.Cursor, b *blocks) error {
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
	x.status.moved(b.last, len(b.events))
	return nil
}

func diverged(at upstream.Cursor, now upstream.Hash) error {
	return fmt.Errorf("%w: block %d of chain %d was %v and is now %v; nothing was changed. A chain that began anew needs a store of its own",
		ErrDiverged, at.Block, at.Chain, at.Hash, now)
}
