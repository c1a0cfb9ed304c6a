package heights

import (
	"context"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// A Ledger lets the replicas of one cache agree on the epoch of a chain. Its methods return within a
// fraction of a second, or fail.
type Ledger interface {
	// Agreement publishes this replica's epoch, and returns the highest epoch of all replicas with its anchors.
	Agreement(ctx context.Context, chainID string, epoch int64) (upstream.Agreement, error)

	// NextEpoch moves the chain from one epoch to another, unless another replica was faster. It returns the current epoch.
	NextEpoch(ctx context.Context, chainID string, from, to int64) (int64, error)

	// AddAnchor records or confirms the hash of a block of an epoch.
	AddAnchor(ctx context.Context, chainID string, epoch, height int64, hash string) error
}

// changeEpoch ends an epoch, because the chain was reset or rolled back. If several replicas notice this, the ledger accepts
// the first one's next epoch.
func (c *Chain) changeEpoch(ctx context.Context, from int64, cause string) {
	c.epochs.Lock()
	defer c.epochs.Unlock()
	if c.Tip().Epoch != from { // another goroutine was faster
		return
	}
	next := max(from+1, time.Now().Unix()) // a time is also higher than earlier epochs that this replica does not know
	if c.o.Ledger != nil {
		if agreed, err := c.o.Ledger.NextEpoch(ctx, c.ChainID(), from, next); err == nil {
			next = agreed
		}
	}
	c.beginEpoch(next, cause)
}

// adopt begins a newer epoch of another replica. It reports whether epoch differs from this replica's. The first call also
// returns true.
func (c *Chain) adopt(epoch int64) (differs bool) {
	c.epochs.Lock()
	defer c.epochs.Unlock()
	current := c.Tip().Epoch
	switch {
	case !c.entered:
		c.tip.Enter(max(epoch, current))
		c.entered = true
		c.o.OnEpoch(c.ChainID(), c.Tip().Epoch)
		return true
	case epoch > current:
		c.beginEpoch(epoch, "another replica changed the epoch")
	}
	return epoch != current
}

// beginEpoch begins an epoch. It calls OnEpoch first, so that no cached entry of the old epoch is served as
// current. The caller must hold epochs.
func (c *Chain) beginEpoch(epoch int64, cause string) {
	before := c.Tip()
	c.entered = true
	c.o.OnEpoch(c.ChainID(), epoch)
	c.hashes.beginEpoch(func() { c.tip.Begin(epoch) })
	for _, s := range c.sources() {
		s.node.ForgetLowest()
		s.startPoll()
	}
	c.o.EpochChanged()
	c.o.Logger.Warn("chain was rolled back or reset, dropped all cached entries",
		"cause", cause, "epoch", epoch, "tip_before", before.Height, "tip", c.Tip().Height)
	c.moved.notify()
}

// agree keeps this replica in the same epoch as the others.
func (c *Chain) agree(ctx context.Context) {
	r := &reconciler{chain: c}
	for {
		moved, pause := c.moved.next(), c.o.RollbackAfter/5
		c.guard(func() {
			if r.reconcile(ctx) {
				moved = nil // wait for the whole pause; after a failure, a new block ends it
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

// A reconciler compares the ledger with this replica's chain.
type reconciler struct {
	chain    *Chain
	epoch    int64     // epoch of the three fields below
	verified int64     // highest anchor with a matching hash
	above    int64     // highest anchor above the tip; 0 if there is none
	since    time.Time // when above took this value
	changed  time.Time // when an anchor last made this replica begin an epoch
}

// reconcile adopts a newer epoch from the ledger, compares the anchors, and adds this replica's newest hash to them. It returns
// false if the chain is not known yet or the ledger could not be read.
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
	if c.adopt(agreed.Epoch) || agreed.Epoch != now.Epoch {
		return true
	}
	if r.epoch != now.Epoch {
		*r = reconciler{chain: c, epoch: now.Epoch, changed: r.changed}
	}
	if now.Known && !now.CatchingUp {
		r.compare(ctx, agreed, now)
	}
	if height, hash := c.hashes.confirmed(); hash != "" {
		_ = c.o.Ledger.AddAnchor(ctx, chainID, now.Epoch, height, hash) // retried in the next round
	}
	return true
}

// compare changes the epoch if the anchors belong to another chain, but at most once in six times RollbackAfter. Otherwise
// a faulty writer of the ledger could make this replica drop its cache again and again.
func (r *reconciler) compare(ctx context.Context, agreed upstream.Agreement, now tip.Tip) {
	cause := r.difference(ctx, agreed, now)
	if cause == "" || time.Since(r.changed) < 6*r.chain.o.RollbackAfter {
		return
	}
	r.changed = time.Now()
	r.chain.changeEpoch(ctx, now.Epoch, cause)
	if r.chain.Tip().Epoch > now.Epoch {
		r.chain.hashes.addPrevious(agreed.Anchors)
	}
}

// difference returns why the anchors belong to another chain, or "" if they do not. Either the newest anchor
// below the tip has another hash, or for RollbackAfter an anchor was above the tip and no replica confirmed it.
func (r *reconciler) difference(ctx context.Context, agreed upstream.Agreement, now tip.Tip) string {
	var below, above int64
	for height := range agreed.Anchors {
		if height < now.Height { // the hash of the tip itself is in the next block
			below = max(below, height)
		} else if height > now.Height {
			above = max(above, height)
		}
	}
	if above == 0 || above != r.above {
		r.above, r.since = above, time.Now()
	}
	after := r.chain.o.RollbackAfter
	if above > 0 && agreed.SinceConfirmed >= after && time.Since(r.since) >= after {
		return "replicas have read at a height above the tip"
	}
	if below > r.verified {
		if hash := r.chain.hashOf(ctx, below); hash != "" && hash != agreed.Anchors[below] {
			return "a block has another hash than at other replicas"
		} else if hash != "" {
			r.verified = below
		}
	}
	return ""
}
