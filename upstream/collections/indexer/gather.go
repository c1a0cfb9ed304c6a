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

// gather joins parts that come while others are taken over: what a transaction
// costs, whatever is in it, is then for all of them, and a collection that
// changes in each is written once.
func gather(ctx context.Context, parts <-chan *blocks, gathered chan<- *blocks) error {
	defer close(gathered)
	var pending *blocks
	for {
		ready := gathered
		if pending == nil {
			ready = nil
		}
		select {
		case b, more := <-parts:
			if more && pending.join(b) {
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

// join appends the blocks that follow, and reports whether it did: not if they
// are too many together, or do not continue these, which is for apply to say.
func (b *blocks) join(next *blocks) bool {
	if b == nil || len(b.events)+len(next.events) > maxGathered || next.parent != b.last.Hash {
		return false
	}
	b.to, b.last, b.source = next.to, next.last, next.source
	b.events = append(b.events, next.events...)
	return true
}

func send(ctx context.Context, to chan<- *blocks, b *blocks) error {
	select {
	case to <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
