package heights

import (
	"context"
	"time"
)

// The tip is put to the proof where it is no more than a claim, or the next block is late; where all
// sources have become lower setback.go does so.

// verify puts the tip to the proof when it is doubted: a plausible claim that
// no node can answer must not be waited for until the chain has got there.
func (c *Chain) verify(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.doubts:
		}
		if height, doubtful := c.tip.Doubtful(); doubtful {
			c.prove(ctx, height)
		}
	}
}

// prove has all sources that claim a height show that it can be read.
func (c *Chain) prove(ctx context.Context, height int64) {
	for _, s := range c.claimants {
		if !c.tip.Claims(s.source, height) {
			continue
		}
		epoch := c.Tip().Epoch
		switch has, err := s.node.has(ctx, c, height); {
		case err == nil && has:
			c.tip.Prove(epoch, height)
		case err == nil:
			s.putAside(height, errNoBlock)
		}
	}
}

// lateFor is how long a chain is late before its next block is looked for less often.
const lateFor = 10 * time.Second

// watchLate reads the next block when it is half an interval late, at each interval from then on,
// and every ten seconds in the end. Where it can be read, the REST server stands in.
func (c *Chain) watchLate(ctx context.Context) {
	var height int64
	for reads := 0; ; {
		moved, now := c.moved.next(), c.Tip()
		if now.Height != height {
			height, reads = now.Height, 0
		}
		var due <-chan time.Time
		if now.Known && !now.CatchingUp {
			due = time.After(time.Until(now.Since.Add(lateness(now.Interval, reads))))
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
			continue
		case <-due:
		}
		c.readNext(ctx, height+1, reads)
		reads++
	}
}

// lateness is how long after the last block the next one is read, the so many'th time.
func lateness(interval time.Duration, reads int) time.Duration {
	late := interval + interval/2
	for range reads {
		if late < lateFor {
			late += interval
		} else {
			late += max(interval, lateFor)
		}
	}
	return late
}

// readNext asks one of the nodes that are as high as the tip, in turn, for the block
// after it. That a node does not have that yet is no failure.
func (c *Chain) readNext(ctx context.Context, height int64, turn int) {
	var able []*restFollower
	for _, f := range c.rest {
		v := f.node.Look()
		if v.Height >= height-1 && !v.CatchingUp && !f.stands(v) {
			able = append(able, f)
		}
	}
	if len(able) == 0 {
		return // the REST servers are polled already
	}
	f := able[turn%len(able)]
	if has, err := f.node.has(ctx, c, height); err != nil || !has {
		return
	}
	f.node.update(func(v *State) { v.Late = v.Height < height })
	f.seek()
}
