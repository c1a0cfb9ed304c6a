package cache

import (
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/upstream"
)

// noteAhead registers a query to be read ahead if its entry was used often until the newest block made it stale.
func (r *request) noteAhead(at *slot) {
	if at == nil || !r.q.Ahead || at.hits.Load() < ahead.Often || r.q.Tip-at.entry.Height != r.q.Policy.FreshBlocks+1 {
		return
	}
	repeated := r.repeat(ForAhead)
	repeated.q.MinHeight = 0 // this caller's
	r.sp.ahead.Record(r.q.Key, repeated)
}

// ReadAhead reads the keys that were requested at least twice in each of the last two blocks, before they are
// requested in this one. Call it when a block arrives. It reads as many keys at a time as the origin has capacity
// for, and only while the origin works.
func (c *Cache) ReadAhead(ctx context.Context, b ahead.Block) {
	sp := c.space.Load()
	sp.ahead.Round(ctx, b, &c.counts.ahead, sp.takeHits(b.Height), func(known *request, left time.Duration) ahead.Result {
		r := known.repeat(ForAhead)
		r.q.Tip, r.q.MaxHeight = b.Height, b.MaxHeight
		at := r.renew(sp.memory.peek(r.q.Key))
		if at == nil || r.q.judge(at, c.o.Now) == Fresh || r.isActive() {
			return ahead.Needless
		}
		if r.revalidationWait(at) == 0 || r.expected(at) > left {
			return ahead.Yielded
		}
		return r.readAhead(ctx, at)
	})
}

// ForgetAhead resets the selection of keys that are read ahead. Call it when policies have changed.
func (c *Cache) ForgetAhead() { c.space.Load().ahead.Forget() }

// takeHits returns a function that takes the number of requests for a key before height, at most ahead.Often.
func (sp *space) takeHits(height int64) func(key string) (times int, ok bool) {
	return func(key string) (int, bool) {
		at := sp.memory.peek(key)
		switch {
		case at == nil:
			return 0, false
		case at.entry.Height >= height: // a caller was faster
			return int(at.previousHits), true
		default:
			return int(at.hits.Swap(0)), true
		}
	}
}

// readAhead reads one key ahead, unless a caller is faster.
func (r *request) readAhead(ctx context.Context, at *slot) ahead.Result {
	if !at.renewing.CompareAndSwap(false, true) {
		return ahead.Needless
	}
	have, shared, err := r.refresh(ctx, at)
	switch {
	case shared, errors.Is(err, errHeld):
		return ahead.Needless
	case errors.Is(err, upstream.ErrYielded):
		return ahead.Busy
	case err != nil:
		return ahead.Failed
	case have.store == fromOrigin:
		return ahead.Origin
	}
	return ahead.Shared
}
