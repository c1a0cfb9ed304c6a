package heights

import (
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node/heights/tip"
)

// maxProof bounds a read that is to prove a claim: the source that waits for it
// follows nothing meanwhile.
const maxProof = 2 * time.Second

// proofPause is between two reads of a block that has just been committed.
const proofPause = 100 * time.Millisecond

var errNoProbe = errors.New("it does not serve what it is probed with")

// A claimant is one source of heights of one endpoint: what stands between what
// it says and what is believed.
type claimant struct {
	chain  *Chain
	node   *Node
	source int           // its number in the tracker
	tried  time.Time     // when a claim was last put to the proof
	round  broadcast     // the source was asked, which is done once at a time
	sought chan struct{} // has a value if another round is to begin at once
}

// claim takes in what the source names as the newest block, and says whether it
// is believed.
func (s *claimant) claim(ctx context.Context, said tip.Claim) bool {
	if !said.Proved && !s.chain.tip.Plausible(s.source, said.Height) && !s.proven(ctx, &said) {
		return false
	}
	back := s.chain.tip.Accept(s.source, said)
	s.node.update(func(v *State) {
		v.Height, v.Heard, v.Aside = said.Height, time.Now(), v.Aside && !back
		if !said.Time.IsZero() {
			v.BlockTime = said.Time
		}
	})
	if back {
		s.node.Logger.Info("node's height source is believed again", "height", said.Height)
	}
	s.chain.claimsChanged(ctx)
	return true
}

// proven puts a claim that is not plausible to the proof: the endpoint is read
// at that height. Where it cannot be asked, a first claim is believed, for there
// is nothing to compare it with; any other counts for nothing.
func (s *claimant) proven(ctx context.Context, said *tip.Claim) bool {
	if s.node.Look().Aside && time.Since(s.tried) < s.pollInterval() {
		return false
	}
	s.tried = time.Now()
	has, err := s.node.has(ctx, s.chain, said.Height)
	for range 2 { // just committed, perhaps, and not yet to be read
		if has || err != nil || upstream.Sleep(ctx, proofPause) != nil {
			break
		}
		has, err = s.node.has(ctx, s.chain, said.Height)
	}
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil && has:
		said.Proved = true
		return true
	case err != nil && s.chain.Tip().Height == 0:
		return true
	}
	s.putAside(ctx, said.Height, err)
	return false
}

// putAside says once that the source is not believed any longer.
func (s *claimant) putAside(ctx context.Context, height int64, err error) {
	if !s.chain.tip.PutAside(s.source) {
		return
	}
	s.node.update(func(v *State) { v.Aside, v.Height, v.Heard = true, 0, time.Time{} })
	cause := "it has no such block"
	if err != nil {
		cause = err.Error()
	}
	s.node.Logger.Warn("node's height source is put aside", "claims", height, "tip", s.chain.Tip().Height, "cause", cause)
	s.chain.claimsChanged(ctx)
}

// pollInterval is the time between two polls: about one block.
func (s *claimant) pollInterval() time.Duration { return min(s.chain.Tip().Interval, maxPatience) }

// has says whether a node can be read at a height.
func (n *Node) has(ctx context.Context, c *Chain, height int64) (bool, error) {
	r, err := n.read(ctx, c, height)
	switch {
	case err != nil:
		return false, err
	case r.Outcome == Unknown:
		return false, errNoProbe
	case r.Outcome == Pruned && r.Latest > 0:
		return height <= r.Latest, nil
	default:
		return r.Outcome != Future, nil
	}
}

// read reads something cheap of a node, and learns from it.
func (n *Node) read(ctx context.Context, c *Chain, height int64) (Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, maxProof)
	defer cancel()
	epoch := c.Tip().Epoch
	r, err := n.Reader.Read(ctx, height)
	if err == nil {
		c.Learn(n, epoch, r)
	}
	return r, err
}

// Learn takes in what a read says of the chain and of its node. The epoch is that
// in which the read began.
func (c *Chain) Learn(n *Node, epoch int64, r Reading) {
	switch {
	case r.Height == 0 || r.Outcome == Unknown:
	case r.Outcome == Pruned:
		n.update(func(s *State) { s.Lowest = max(s.Lowest, r.Height+1) })
	case r.Outcome == Answered:
		c.tip.Prove(epoch, r.Height)
	case r.Height <= c.Tip().Height:
		select {
		case c.doubts <- struct{}{}:
		default:
		}
	}
}

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

// prove has all who claim a height show that it can be read.
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
			s.putAside(ctx, height, nil)
		}
	}
}
