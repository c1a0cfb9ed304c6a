package cache

import (
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/cache/ahead"
)

// noteAhead notes a query for an entry that the newest block has made stale, and
// that was asked for often until then.
func (r *request) noteAhead(at *slot) {
	if at == nil || !r.q.Ahead || at.hits.Load() < ahead.Often || r.q.Tip-at.entry.Height != r.q.Policy.FreshBlocks+1 {
		return
	}
	again := *r
	again.q.MinHeight = 0
	r.ch.ahead.Note(r.q.Key, again)
}

// ReadAhead is to be called when a block has come. It reads the keys that were
// asked for at least twice in each of the last two blocks, before a caller asks for
// them in this one: as many at a time as the origin has room for, and only while it is
// well.
func (c *Cache) ReadAhead(ctx context.Context, b ahead.Block) {
	ch := c.chain.Load()
	ch.ahead.Round(ctx, b, &c.counts.ahead, ch.hitsBefore(b.Height), func(r request, left time.Duration) ahead.Result {
		r.q.Tip, r.q.MaxHeight = b.Height, b.MaxHeight
		at := r.renew(ch.memory.peek(r.q.Key))
		if at == nil || r.q.judge(at, c.o.Now) == Fresh || ch.pending.UnderWay(r.q.Key) {
			return ahead.Needless
		}
		if c.revalidationWait(&r.q, at) == 0 || c.expected(&r.q, at) > left {
			return ahead.Yielded
		}
		return r.readAhead(ctx, at)
	})
}

// ForgetAhead has all keys earn anew that they are read ahead. It is to be called
// when policies have changed.
func (c *Cache) ForgetAhead() { c.chain.Load().ahead.Forget() }

// hitsBefore tells how often keys were asked for in the block before one.
func (ch *chain) hitsBefore(height int64) func(key string) (times int, ok bool) {
	return func(key string) (int, bool) {
		at := ch.memory.peek(key)
		switch {
		case at == nil:
			return 0, false
		case at.entry.Height >= height: // a caller was quicker
			return int(at.previousHits), true
		default:
			return int(at.hits.Swap(0)), true
		}
	}
}

// readAhead reads one key ahead, unless a caller is quicker.
func (r *request) readAhead(ctx context.Context, at *slot) ahead.Result {
	if !at.renewing.CompareAndSwap(false, true) {
		return ahead.Needless
	}
	l, own, err := r.unattended(context.WithValue(ctx, aheadKey{}, true), at)
	switch {
	case !own, errors.Is(err, errHeld):
		return ahead.Needless
	case errors.Is(err, ErrYielded):
		return ahead.Yielded
	case err != nil:
		return ahead.Failed
	case l.store == fromOrigin:
		return ahead.Origin
	}
	return ahead.Shared
}
