package node

import (
	"context"
	"time"
)

// turn ends an epoch: the chain is not the one that was followed so far. Of the
// replicas that find that, one moves the epoch on.
func (p *Pool) turn(ctx context.Context, from int64, cause string) {
	p.epochs.Lock()
	defer p.epochs.Unlock()
	if p.Tip().Epoch != from { // another follower was faster
		return
	}
	next := max(from+1, time.Now().Unix())
	if p.ledger != nil {
		if agreed, err := p.ledger.NextEpoch(ctx, p.ChainID(), from, next); err == nil {
			next = agreed
		}
	}
	p.begin(next, cause)
}

// adopt begins an epoch that another replica has found.
func (p *Pool) adopt(epoch int64) {
	p.epochs.Lock()
	defer p.epochs.Unlock()
	switch {
	case !p.told: // the first
		p.tip.Begin(max(epoch, p.Tip().Epoch))
		p.tell()
	case epoch > p.Tip().Epoch:
		p.begin(epoch, "another replica says so")
	}
}

// begin puts an epoch in force. What is cached goes first, so that nothing of
// the old epoch is taken for current. Call with epochs held.
func (p *Pool) begin(epoch int64, cause string) {
	before := p.Tip()
	p.told = true
	if p.onEpoch != nil {
		p.onEpoch(p.ChainID(), epoch)
	}
	p.tip.Begin(epoch)
	p.anchors.clear()
	p.metrics.epochs.Inc()
	p.log.Warn("chain was set back or reset, and everything cached is dropped",
		"cause", cause, "epoch", epoch, "tip_before", before.Height, "tip", p.Tip().Height)
	p.moved.flash()
}

// tell says which chain and epoch are in force. Call with epochs held.
func (p *Pool) tell() {
	p.told = true
	if p.onEpoch != nil {
		p.onEpoch(p.ChainID(), p.Tip().Epoch)
	}
}

// agreed says whether it has been told which epoch is in force.
func (p *Pool) agreed() bool {
	p.epochs.Lock()
	defer p.epochs.Unlock()
	return p.told
}

// agree keeps this replica and the others in one epoch.
func (p *Pool) agree(ctx context.Context) {
	a := &agreement{pool: p}
	for {
		moved, pause := p.moved.lit(), p.rollbackAfter/5
		if a.round(ctx) {
			moved = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
		case <-time.After(pause):
		}
	}
}

// An agreement is what this replica makes of what the others have told.
type agreement struct {
	pool     *Pool
	verified int64     // the highest anchor that was found right
	above    int64     // the highest anchor, while that is above the tip
	since    time.Time // since when it is
	turned   time.Time // when an anchor last had this replica begin an epoch
}

// round says whether the replicas could be asked.
func (a *agreement) round(ctx context.Context) bool {
	p := a.pool
	chainID, tip := p.ChainID(), p.Tip()
	if chainID == "" {
		return false
	}
	if p.ledger == nil {
		p.adopt(0)
		return true
	}
	agreed, err := p.ledger.Agreement(ctx, chainID, tip.Epoch)
	if err != nil {
		return false
	}
	if agreed.Epoch != tip.Epoch || !p.agreed() {
		*a = agreement{pool: p, turned: a.turned}
		p.adopt(agreed.Epoch)
		return true
	}
	if tip.Known && !tip.CatchingUp {
		a.compare(ctx, agreed, tip)
	}
	if height, hash := p.anchors.newest(); hash != "" {
		_ = p.ledger.AddAnchor(ctx, chainID, tip.Epoch, height, hash) // the next round tries again
	}
	return true
}

// compare looks for signs that the anchors are of another chain than ours.
// Whoever writes to the ledger could have us drop everything time and again, so
// that is done once in a while only.
func (a *agreement) compare(ctx context.Context, agreed Agreement, tip Tip) {
	cause := a.differs(ctx, agreed, tip)
	if cause == "" || time.Since(a.turned) < 6*a.pool.rollbackAfter {
		return
	}
	a.turned = time.Now()
	a.pool.turn(ctx, tip.Epoch, cause)
}

// differs says how the anchors show another chain, "" if they do not: the newest
// at or below our tip has another hash, or one stays above it that no other
// replica confirms.
func (a *agreement) differs(ctx context.Context, agreed Agreement, tip Tip) string {
	var below, above int64
	for height := range agreed.Anchors {
		if height < tip.Height { // its hash is in the block after it
			below = max(below, height)
		} else if height > tip.Height {
			above = max(above, height)
		}
	}
	if above == 0 || above != a.above {
		a.above, a.since = above, time.Now()
	}
	after := a.pool.rollbackAfter
	if above > 0 && agreed.Confirmed >= after && time.Since(a.since) >= after {
		return "what replicas had read at is above the tip"
	}
	if below > a.verified {
		if hash := a.pool.hashOf(ctx, below); hash != "" && hash != agreed.Anchors[below] {
			return "a block has another hash than replicas had seen"
		} else if hash != "" {
			a.verified = below
		}
	}
	return ""
}
