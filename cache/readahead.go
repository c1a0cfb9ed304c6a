package cache

import (
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/cache/ahead"
)

// asked is what is needed to read a key ahead: how it was asked for.
type asked struct {
	q      Query
	origin Origin
}

type aheadKey struct{}

// Ahead tells an [Origin] that nobody has asked for its answer. One that has no
// room for that at once fails with [ErrYielded].
func Ahead(ctx context.Context) bool { return ctx.Value(aheadKey{}) != nil }

// noteAhead notes a query for an entry that the newest block has made stale, and
// that was asked for often until then.
func (c *Cache) noteAhead(ch *chain, at *slot, q *Query, origin Origin) {
	if !q.Ahead || at == nil || at.asks.Load() < ahead.Often || q.Tip-at.entry.Height != q.Policy.FreshBlocks+1 {
		return
	}
	again := *q
	again.MinHeight = 0
	ch.ahead.Note(q.Key, asked{again, origin})
}

// ReadAhead is to be called when a block has come. It reads the keys that were
// asked for at least twice in each of the last two blocks, before anybody asks for
// them in this one: one after the other, and only while the origin is well.
func (c *Cache) ReadAhead(ctx context.Context, b ahead.Block) {
	ch := c.chain.Load()
	ch.ahead.Round(ctx, b, &c.counts.ahead, ch.asksBefore(b.Height), func(a asked, left time.Duration) ahead.Result {
		a.q.Tip, a.q.MaxHeight = b.Height, b.MaxHeight
		at := ch.memory.peek(a.q.Key)
		if at == nil || a.q.state(at, c.o.Now()) == Fresh || ch.pending.UnderWay(a.q.Key) {
			return ahead.Needless
		}
		if c.revalidationWait(&a.q, at) == 0 || c.expected(&a.q, at) > left {
			return ahead.Yielded
		}
		return c.readAhead(ctx, ch, at, a)
	})
}

// ForgetAhead has all keys earn anew that they are read ahead. It is to be called
// when policies have changed.
func (c *Cache) ForgetAhead() { c.chain.Load().ahead.Forget() }

// asksBefore tells how often keys were asked for in the block before one.
func (ch *chain) asksBefore(height int64) func(key string) (times int, ok bool) {
	return func(key string) (int, bool) {
		at := ch.memory.peek(key)
		switch {
		case at == nil:
			return 0, false
		case at.entry.Height >= height: // a caller was quicker
			return int(at.before), true
		default:
			return int(at.asks.Swap(0)), true
		}
	}
}

// readAhead reads one key ahead, unless a caller is quicker.
func (c *Cache) readAhead(ctx context.Context, ch *chain, at *slot, a asked) ahead.Result {
	if !at.renewing.CompareAndSwap(false, true) {
		return ahead.Needless
	}
	defer at.renewing.Store(false)
	own := make(chan struct{}, 1)
	landed := ch.flights.DoChan(a.q.Key, func() (any, error) {
		own <- struct{}{}
		return c.fly(context.WithValue(ctx, aheadKey{}, true), &flight{c: c, ch: ch, q: a.q, origin: a.origin})
	})
	select {
	case r := <-landed:
		switch {
		case len(own) == 0:
			return ahead.Needless
		case errors.Is(r.Err, ErrYielded):
			return ahead.Yielded
		case r.Err != nil:
			return ahead.Failed
		case r.Val.(flightResult).store == fromOrigin: //nolint:forcetypeassert // a flight's
			return ahead.Origin
		}
		return ahead.Shared
	case <-c.life.Done():
		return ahead.Failed
	}
}
