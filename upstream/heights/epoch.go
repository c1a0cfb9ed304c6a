package heights

import (
	"context"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// A Ledger is where the replicas of one cache agree on the epoch of a chain. Its
// methods answer within a fraction of a second, or fail.
type Ledger interface {
	// Agreement gives the highest epoch that any replica has told; epoch is ours.
	Agreement(ctx context.Context, chainID string, epoch int64) (upstream.Agreement, error)

	// NextEpoch moves the chain to another epoch, unless a replica was faster, and gives the one in
	// force.
	NextEpoch(ctx context.Context, chainID string, from, to int64) (int64, error)

	// AddAnchor notes, or confirms, the hash of a block of an epoch.
	AddAnchor(ctx context.Context, chainID string, epoch, height int64, hash string) error
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

// adopt begins an epoch that another replica has found, and says whether it is not the one that
// was in force here.
func (c *Chain) adopt(epoch int64) (other bool) {
	c.epochs.Lock()
	defer c.epochs.Unlock()
	ours := c.Tip().Epoch
	switch {
	case !c.told: // the first
		c.tip.Enter(max(epoch, ours))
		c.told = true
		c.o.OnEpoch(c.ChainID(), c.Tip().Epoch)
		return true
	case epoch > ours:
		c.begin(epoch, "another replica says so")
	}
	return epoch != ours
}

// begin puts an epoch in force. What is cached goes first, so that nothing of
// the old epoch is taken for current. Call with epochs held.
func (c *Chain) begin(epoch int64, cause string) {
	before := c.Tip()
	c.told = true
	c.o.OnEpoch(c.ChainID(), epoch)
	c.anchors.turn(func() { c.tip.Begin(epoch) })
	for _, s := range c.claimants() {
		s.node.Forget()
		s.seek()
	}
	c.o.Turned()
	c.o.Logger.Warn("chain was rolled back or reset, dropped all cached entries",
		"cause", cause, "epoch", epoch, "tip_before", before.Height, "tip", c.Tip().Height)
	c.moved.notify()
}

// agree keeps this replica and the others in one epoch.
func (c *Chain) agree(ctx context.Context) {
	r := &reconciler{chain: c}
	for {
		moved, pause := c.moved.next(), c.o.RollbackAfter/5
		c.guard(func() {
			if r.reconcile(ctx) {
				moved = nil
			}
		})
		select {
		case <-ctx.Done():
			return
		case <-moved:
		case <-time.After(pause):
		}
	}
}

// A reconciler is what this replica makes of what the others have told.
type reconciler struct {
	chain    *Chain
	epoch    int64     // that the following is of
	verified int64     // the highest anchor that was found right
	above    int64     // the highest anchor, while that is above the tip
	since    time.Time // since when it is
	turned   time.Time // when an anchor last had this replica begin an epoch
}

// reconcile says whether the replicas could be asked.
func (r *reconciler) reconcile(ctx context.Context) bool {
	c := r.chain
	chainID, now := c.ChainID(), c.Tip()
	if chainID == "" {
		return false
	}
	if c.o.Ledger == nil {
		c.adopt(0)
		return true
	}
	agreed, err := c.o.Ledger.Agreement(ctx, chainID, now.Epoch)
	if err != nil {
		return false
	}
	if c.adopt(agreed.Epoch) || agreed.Epoch != now.Epoch { // meanwhile, perhaps
		return true
	}
	if r.epoch != now.Epoch {
		*r = reconciler{chain: c, epoch: now.Epoch, turned: r.turned}
	}
	if now.Known && !now.CatchingUp {
		r.compare(ctx, agreed, now)
	}
	if height, hash := c.anchors.newest(); hash != "" {
		_ = c.o.Ledger.AddAnchor(ctx, chainID, now.Epoch, height, hash) // the next round tries again
	}
	return true
}

// compare looks for signs that the anchors are of another chain than ours, but once in a while
// only: a process that writes to the ledger could have us drop everything time and again.
func (r *reconciler) compare(ctx context.Context, agreed upstream.Agreement, now tip.Tip) {
	cause := r.differs(ctx, agreed, now)
	if cause == "" || time.Since(r.turned) < 6*r.chain.o.RollbackAfter {
		return
	}
	r.turned = time.Now()
	r.chain.changeEpoch(ctx, now.Epoch, cause)
	if r.chain.Tip().Epoch > now.Epoch {
		r.chain.anchors.recall(agreed.Anchors)
	}
}

// differs says how the anchors show another chain, "" if they do not: the newest up to our tip has
// another hash, or one stays above it that no other replica confirms.
func (r *reconciler) differs(ctx context.Context, agreed upstream.Agreement, now tip.Tip) string {
	var below, above int64
	for height := range agreed.Anchors {
		if height < now.Height { // its hash is in the block after it
			below = max(below, height)
		} else if height > now.Height {
			above = max(above, height)
		}
	}
	if above == 0 || above != r.above {
		r.above, r.since = above, time.Now()
	}
	after := r.chain.o.RollbackAfter
	if above > 0 && agreed.Confirmed >= after && time.Since(r.since) >= after {
		return "what replicas had read at is above the tip"
	}
	if below > r.verified {
		if hash := r.chain.hashOf(ctx, below); hash != "" && hash != agreed.Anchors[below] {
			return "a block has another hash than replicas had seen"
		} else if hash != "" {
			r.verified = below
		}
	}
	return ""
}
