package heights

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// maxProof bounds a read that is to prove a claim: its source follows nothing meanwhile.
const maxProof = 2 * time.Second

// proofPause is between two reads of a block that has just been committed.
const proofPause = 100 * time.Millisecond

var (
	errNoProbe = errors.New("it does not serve what it is probed with")
	errNoBlock = errors.New("it has no such block")
	errLow     = errors.New("what is above it can be read")
	errFork    = errors.New("it has another block than another node")
)

// A claimant is one source of heights of one endpoint, between what it says and what is believed.
type claimant struct {
	chain    *Chain
	node     *Node
	source   int           // its number in the tracker
	tried    time.Time     // when a claim was last put to the proof
	hashless int           // times in a row that it told no hash
	round    broadcast     // the source was asked, which is done once at a time
	sought   chan struct{} // has a value if another round is to begin at once
}

// guard calls work, which handles what the source said. A panic drops that.
func (s *claimant) guard(work func() error) error {
	return upstream.Guard(s.node.Logger, "heights", work)
}

// claim takes in what the source names as the newest block, with hashes of blocks before it that
// were read in an epoch, and says whether it is believed. The hashes are known first.
func (s *claimant) claim(ctx context.Context, epoch int64, said tip.Claim, hashes map[int64]string) bool {
	if s.falls(said.Height) {
		defer s.chain.contradict()()
	}
	if !s.plausible(said) && !s.proven(ctx, &said) {
		return false
	}
	back := s.chain.tip.Accept(s.source, said)
	s.chain.anchors.noteAll(hashes, func() bool { return s.chain.Tip().Epoch == epoch })
	s.node.update(func(v *State) {
		v.Height, v.Heard, v.Aside = said.Height, time.Now(), v.Aside && !back
		if !said.Time.IsZero() {
			v.BlockTime = said.Time
		}
	})
	if back {
		s.node.Logger.Info("trusting the node's height source again", "height", said.Height)
	}
	s.chain.moved.notify()
	return true
}

// plausible says whether a claim needs no proof.
func (s *claimant) plausible(said tip.Claim) bool {
	switch {
	case s.falls(said.Height):
		return false
	case said.Proved:
		return true
	default:
		return s.chain.tip.Plausible(s.source, said.Height)
	}
}

// falls says whether a height is below what the node was known to have, or where that is
// not known, as of a source that was just put aside, below what any node was read at.
func (s *claimant) falls(height int64) bool {
	known := s.node.Look().Height
	return height < known || known == 0 && height < s.chain.tip.Proved()
}

// proven puts a claim that is not plausible to the proof: a read at that height. Where that is not
// possible, a first claim is believed, and any other counts for nothing.
func (s *claimant) proven(ctx context.Context, said *tip.Claim) bool {
	if time.Since(s.tried) < s.pollInterval() && s.chain.tip.Aside(s.source) {
		return false
	}
	s.tried = time.Now()
	if s.falls(said.Height) {
		return s.fallen(ctx, said)
	}
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
	s.putAside(said.Height, cmp.Or(err, errNoBlock))
	return false
}

// fallen puts a claim that is too low to the proof: the node is read at the height that it was
// known to have, and at the proved one, for which a source that is a little behind counts. One that
// was put aside is believed where no node answers as high.
func (s *claimant) fallen(ctx context.Context, said *tip.Claim) bool {
	epoch, proved := s.chain.Tip().Epoch, s.chain.tip.Proved()
	if s.chain.tip.Aside(s.source) && said.Height < proved {
		answered, refused := s.chain.canRead(ctx, proved)
		return refused && !answered
	}
	for _, high := range []int64{s.node.Look().Height, proved} {
		if high <= said.Height {
			continue
		}
		if has, err := s.node.has(ctx, s.chain, high); err != nil {
			return errors.Is(err, errNoProbe)
		} else if has {
			s.chain.tip.Prove(epoch, high)
			return s.lags(said, high)
		}
	}
	return true
}

// lags has a source that is a little behind a height that its node was read at claim that
// height, and puts one aside that is farther behind.
func (s *claimant) lags(said *tip.Claim, high int64) (believed bool) {
	if said.Height < high-tip.Slack {
		s.putAside(said.Height, errLow)
		return false
	}
	*said = tip.Claim{Height: high, CatchingUp: said.CatchingUp, Proved: true}
	return true
}

// putAside says once that the source is not believed any longer.
func (s *claimant) putAside(height int64, cause error) {
	if !s.chain.tip.PutAside(s.source) {
		return
	}
	s.node.update(func(v *State) { v.Aside, v.Height, v.Heard = true, 0, time.Time{} })
	s.node.Logger.Warn("ignoring the node's height source", "claims", height, "tip", s.chain.Tip().Height, "cause", cause.Error())
	s.chain.moved.notify()
}

// pollInterval is the time between two polls: about one block.
func (s *claimant) pollInterval() time.Duration { return min(s.chain.Tip().Interval, maxPatience) }

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
			c.guard(func() { c.prove(ctx, height) })
		}
	}
}

// prove has all sources that claim a height show that it can be read.
func (c *Chain) prove(ctx context.Context, height int64) {
	for _, s := range c.claimants() {
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

// Learn takes in what a read that began in an epoch says of the chain and of its node. A refusal says nothing of the tip
// and of heights above it, which a client may have named.
func (c *Chain) Learn(n *Node, epoch int64, r Reading) {
	tip := c.Tip()
	switch {
	case r.Height <= 0 || r.Outcome == Unknown || epoch != tip.Epoch:
	case r.Outcome == Pruned:
		if r.Height < tip.Height {
			n.update(func(s *State) { s.Lowest = max(s.Lowest, r.Height+1) })
		}
	case r.Outcome == Answered:
		n.update(func(s *State) { s.Lowest = min(s.Lowest, r.Height) })
		c.tip.Prove(epoch, r.Height)
	case r.Height <= tip.Height:
		select {
		case c.doubts <- struct{}{}:
		default:
		}
	}
}

// Seek is called when a node has answered while no tip is known, as after an outage. Each source of
// the node is asked for one round, which begins after the call. Seek says whether the tip is known
// then.
func (c *Chain) Seek(ctx context.Context, n *Node) bool {
	ctx, cancel := context.WithTimeout(ctx, maxProof)
	defer cancel()
	var rounds []<-chan struct{}
	for _, s := range c.claimants() {
		if s.node == n {
			rounds = append(rounds, s.seek())
		}
	}
	for moved := c.Moved(); len(rounds) > 0 && !c.Tip().Known; {
		select {
		case <-rounds[0]:
			rounds = rounds[1:]
		case <-moved:
			moved = c.Moved()
		case <-ctx.Done():
			return false
		}
	}
	return c.Tip().Known
}

// seek has the source asked at once, and gives what is closed at the end of that round.
func (s *claimant) seek() (over <-chan struct{}) {
	over = s.round.next()
	select {
	case s.sought <- struct{}{}:
	default:
	}
	return over
}
