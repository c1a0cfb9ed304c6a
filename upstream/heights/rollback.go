package heights

import (
	"context"
	"errors"
	"time"
)

// watchFall asks for the highest block that was read as long as every source names
// lower ones. The chain was set back when no node answers for all of RollbackAfter. An
// answer ends the fall, and the sources that are lower are put aside.
func (c *Chain) watchFall(ctx context.Context) {
	for {
		moved := c.moved.next()
		var again <-chan time.Time
		if height, since := c.tip.Falling(); height > 0 {
			c.judgeFall(ctx, height, since)
			moved, again = nil, time.After(c.untilJudged(since)) // a round at a time
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
		case <-again:
		}
	}
}

// shortest is how long all sources have to be lower before that is looked into: one
// that is a block behind the socket is right in a moment.
func (c *Chain) shortest() time.Duration {
	return min(c.Tip().Interval, maxPatience, c.o.RollbackAfter/2)
}

// untilJudged is the time to the next read at the proved height: one comes when the
// fall has lasted long enough.
func (c *Chain) untilJudged(since time.Time) time.Duration {
	pause := c.shortest()
	if left := c.o.RollbackAfter - time.Since(since); left > 0 {
		pause = min(pause, left)
	}
	return pause
}

// judgeFall reads at a height that every source is below since some time.
func (c *Chain) judgeFall(ctx context.Context, height int64, since time.Time) {
	epoch, lasted := c.Tip().Epoch, time.Since(since)
	if lasted < c.shortest() {
		return
	}
	switch answered, refused := c.canRead(ctx, height); {
	case answered:
		c.tip.Prove(epoch, height)
		for _, s := range c.claimants {
			if c.tip.Lowers(s.source) {
				s.putAside(s.node.Look().Height, errLow)
			}
		}
	case refused && lasted >= c.o.RollbackAfter && c.tip.SetBack():
		c.changeEpoch(ctx, epoch, "every source is lower, and no node can be read as high as before")
	}
}

// canRead asks all nodes of our chain at once for a height. A refusal that names a
// higher latest height counts as an answer. refused says that a node answered that it
// does not have the height, and not merely that none could be asked.
func (c *Chain) canRead(ctx context.Context, height int64) (answered, refused bool) {
	type verdict struct{ has, refuses bool }
	verdicts := make(chan verdict, len(c.rest))
	asked := 0
	for _, f := range c.rest {
		if v := f.node.Look(); v.Foreign() {
			continue
		}
		asked++
		go func() {
			has, err := f.node.has(ctx, c, height)
			verdicts <- verdict{has && err == nil, !has && err == nil || errors.Is(err, errNoProbe)}
		}()
	}
	for range asked {
		v := <-verdicts
		answered, refused = answered || v.has, refused || v.refuses
	}
	return answered, refused
}

// changeEpoch ends an epoch: the chain is not the one that was followed so far. Of the
// replicas that find that, one moves the epoch on.
func (c *Chain) changeEpoch(ctx context.Context, from int64, cause string) {
	c.epochs.Lock()
	defer c.epochs.Unlock()
	if c.Tip().Epoch != from { // another follower was faster
		return
	}
	next := max(from+1, time.Now().Unix())
	if c.o.Ledger != nil {
		if agreed, err := c.o.Ledger.NextEpoch(ctx, c.ChainID(), from, next); err == nil {
			next = agreed
		}
	}
	c.begin(next, cause)
}

// adopt begins an epoch that another replica has found.
func (c *Chain) adopt(epoch int64) {
	c.epochs.Lock()
	defer c.epochs.Unlock()
	switch {
	case !c.told: // the first
		c.tip.Enter(max(epoch, c.Tip().Epoch))
		c.told = true
		c.o.OnEpoch(c.ChainID(), c.Tip().Epoch)
	case epoch > c.Tip().Epoch:
		c.begin(epoch, "another replica says so")
	}
}

// begin puts an epoch in force. What is cached goes first, so that nothing of
// the old epoch is taken for current. Call with epochs held.
func (c *Chain) begin(epoch int64, cause string) {
	before := c.Tip()
	c.told = true
	c.o.OnEpoch(c.ChainID(), epoch)
	c.tip.Begin(epoch)
	for _, s := range c.claimants {
		s.seek()
	}
	c.anchors.turn()
	c.o.Turned()
	c.o.Logger.Warn("chain was set back or reset, and everything cached is dropped",
		"cause", cause, "epoch", epoch, "tip_before", before.Height, "tip", c.Tip().Height)
	c.moved.notify()
}
