package indexer

import "context"

// maxGathered is how many events are taken over at once, at the most, where more
// parts than one are there: the events of a part are not divided.
const maxGathered = 50_000

// inOrder hands on the parts of windows, one window after the other. It ends
// with the windows, or after a part that is missing: its fetch tells why.
func inOrder(ctx context.Context, windows <-chan fetching, parts chan<- *blocks) error {
	defer close(parts)
	for w := range windows {
		at := w.from - 1
		for b := range w.parts {
			if err := hand(ctx, parts, b); err != nil {
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

// gather joins parts that come while others are taken over: what a transaction
// costs, whatever is in it, is then for all of them, and a collection that
// changes in each is written once.
func gather(ctx context.Context, parts <-chan *blocks, gathered chan<- *blocks) error {
	defer close(gathered)
	var held *blocks
	for {
		ready := gathered
		if held == nil {
			ready = nil
		}
		select {
		case b, more := <-parts:
			if more && held.join(b) {
				continue
			}
			if held != nil {
				if err := hand(ctx, gathered, held); err != nil {
					return err
				}
			}
			if held = b; !more {
				return nil
			}
		case ready <- held:
			held = nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// join appends the blocks that follow, and reports whether it did: not if they
// are too many together, or do not continue these, which is for take to say.
func (b *blocks) join(next *blocks) bool {
	if b == nil || len(b.events)+len(next.events) > maxGathered || next.parent != b.last.Hash {
		return false
	}
	b.to, b.last = next.to, next.last
	b.events = append(b.events, next.events...)
	return true
}

func hand(ctx context.Context, to chan<- *blocks, b *blocks) error {
	select {
	case to <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
