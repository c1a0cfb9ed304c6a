package heights

import (
	"context"
	"time"
)

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
