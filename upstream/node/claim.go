package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/tipcache/tipcache/upstream/node/tip"
)

// maxProof bounds a read that is to prove a claim: whoever waits for it does
// not follow meanwhile.
const maxProof = 2 * time.Second

// A claimant is one source of heights of one endpoint: what stands between what
// it says and what is believed.
type claimant struct {
	pool     *Pool
	endpoint *endpoint
	log      *slog.Logger
	source   int       // its number in the tracker
	tried    time.Time // when a claim was last put to the proof
}

// claim takes in what the source names as the newest block, and says whether it
// is believed.
func (c *claimant) claim(ctx context.Context, said tip.Claim) bool {
	if !said.Proved && !c.pool.tip.Plausible(c.source, said.Height) && !c.proven(ctx, &said) {
		return false
	}
	back := c.pool.tip.Hear(c.source, said)
	c.endpoint.update(func(v *view) {
		v.height, v.heard, v.aside = said.Height, time.Now(), v.aside && !back
		if !said.Time.IsZero() {
			v.blockTime = said.Time
		}
	})
	if back {
		c.log.Info("node's height source is believed again", "height", said.Height)
	}
	c.pool.stirred(ctx)
	return true
}

// proven puts a claim that is not plausible to the proof: the endpoint is read
// at that height. Where it cannot be asked, a first claim is believed, for there
// is nothing to compare it with; any other counts for nothing.
func (c *claimant) proven(ctx context.Context, said *tip.Claim) bool {
	if c.endpoint.look().aside && time.Since(c.tried) < c.beat() {
		return false
	}
	c.tried = time.Now()
	has, err := c.pool.has(ctx, c.endpoint, said.Height)
	for range 2 { // just committed, perhaps, and not yet to be read
		if has || err != nil || !sleep(ctx, firstPause*4) {
			break
		}
		has, err = c.pool.has(ctx, c.endpoint, said.Height)
	}
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil && has:
		said.Proved = true
		return true
	case err != nil && c.pool.Tip().Height == 0:
		return true
	}
	c.putAside(ctx, said.Height, err)
	return false
}

// putAside says once that the source is not believed any longer.
func (c *claimant) putAside(ctx context.Context, height int64, err error) {
	if !c.pool.tip.PutAside(c.source) {
		return
	}
	c.endpoint.update(func(v *view) { v.aside, v.height, v.heard = true, 0, time.Time{} })
	cause := "it has no such block"
	if err != nil {
		cause = err.Error()
	}
	c.log.Warn("node's height source is put aside", "claims", height, "tip", c.pool.Tip().Height, "cause", cause)
	c.pool.stirred(ctx)
}

// beat is the time between two polls: about one block.
func (c *claimant) beat() time.Duration { return min(c.pool.Tip().Interval, maxPatience) }

// has says whether an endpoint can be read at a height.
func (p *Pool) has(ctx context.Context, e *endpoint, height int64) (bool, error) {
	a, err := p.peek(ctx, e, height)
	switch {
	case err != nil:
		return false, err
	case a.Reason == Pruned && a.Latest > 0:
		return height <= a.Latest, nil
	default:
		return a.Reason != FutureHeight, nil
	}
}

// peek reads something cheap of an endpoint at a height.
func (p *Pool) peek(ctx context.Context, e *endpoint, height int64) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, maxProof)
	defer cancel()
	r := Request{Path: p.speech.probe, Height: height}
	if err := e.queue.acquire(ctx, r); err != nil {
		return nil, e.busy(err)
	}
	defer e.queue.release(r.Cost)
	epoch := p.Tip().Epoch
	a, err := e.ask(ctx, r, height)
	if err == nil {
		p.learn(e, epoch, a)
	}
	return a, err
}

// learn takes in what an answer says of the chain and of its endpoint.
func (p *Pool) learn(e *endpoint, epoch int64, a *Answer) {
	switch {
	case a.Height == 0 || a.NodeStatus == 404: // no handler ran
	case a.Reason == Pruned:
		e.update(func(v *view) { v.lowest = max(v.lowest, a.Height+1) })
	case a.Reason != FutureHeight:
		p.tip.Prove(epoch, a.Height)
	case a.Height <= p.Tip().Height:
		select {
		case p.doubts <- struct{}{}:
		default:
		}
	}
}

// verify puts the tip to the proof when it is doubted: a plausible claim that
// no endpoint can answer must not be waited for until the chain has got there.
func (p *Pool) verify(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.doubts:
		}
		if height, doubtful := p.tip.Doubtful(); doubtful {
			p.prove(ctx, height)
		}
	}
}

// prove has all who claim a height show that it can be read.
func (p *Pool) prove(ctx context.Context, height int64) {
	for _, c := range p.claimants {
		if !p.tip.Claims(c.source, height) {
			continue
		}
		epoch := p.Tip().Epoch
		switch has, err := p.has(ctx, c.endpoint, height); {
		case err == nil && has:
			p.tip.Prove(epoch, height)
		case err == nil:
			c.putAside(ctx, height, nil)
		}
	}
}

// sleep says whether the context lived on for so long.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
