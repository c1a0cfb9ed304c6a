package heights

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// watchFall reads the highest proved block while every source claims lower ones, until a node answers or, after
// RollbackAfter, the chain counts as rolled back.
func (c *Chain) watchFall(ctx context.Context) {
	for {
		moved := c.moved.next()
		var retry <-chan time.Time
		if height, since := c.tip.Falling(); height > 0 {
			c.guard(func() { c.checkFall(ctx, height, since) })
			pause := c.fallGrace()
			if left := c.o.RollbackAfter - time.Since(since); left > 0 {
				pause = min(pause, left)
			}
			moved, retry = nil, time.After(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
		case <-retry:
		}
	}
}

// fallGrace returns how long all sources must be lower before a fall is checked, as one may be a block behind.
func (c *Chain) fallGrace() time.Duration {
	return min(c.Tip().Interval, maxSilence, c.o.RollbackAfter/2)
}

// checkFall reads at the proved height, which is above all claims. If a node answers, it distrusts the lower sources. If none
// answers, at least one refuses the read, and the sources have been lower for long enough, it begins an epoch.
func (c *Chain) checkFall(ctx context.Context, height int64, since time.Time) {
	epoch := c.Tip().Epoch
	if time.Since(since) < c.fallGrace() {
		return
	}
	switch answered, refused := c.canRead(ctx, height); {
	case answered:
		c.tip.Prove(epoch, height)
		for _, s := range c.sources() {
			if c.tip.ClaimsLower(s.source) {
				s.distrust(s.node.State().Height, errLow)
			}
		}
	case refused && c.tip.RolledBack():
		c.changeEpoch(ctx, epoch, "every source is lower and no node can read the highest known block")
	}
}

// canRead reads a height from all nodes of the chain at once. answered reports whether a node has the block, or had it before
// it pruned it. refused reports whether a node responded otherwise.
func (c *Chain) canRead(ctx context.Context, height int64) (answered, refused bool) {
	var reads sync.WaitGroup
	var yes, no atomic.Bool
	for _, m := range c.all() {
		if v := m.node.State(); !v.Foreign() {
			reads.Go(func() {
				c.guard(func() {
					switch has, err := m.node.has(ctx, c, height); {
					case err == nil && has:
						yes.Store(true)
					case err == nil || errors.Is(err, errNoProbe):
						no.Store(true)
					}
				})
			})
		}
	}
	reads.Wait()
	return yes.Load(), no.Load()
}
