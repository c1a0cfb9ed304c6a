package heights

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// proofTimeout limits a read that proves a claim, because its source is not followed meanwhile.
const proofTimeout = 2 * time.Second

// proofPause is the time between two reads of a block that may just have been committed.
const proofPause = 100 * time.Millisecond

var (
	errNoProbe = errors.New("node does not serve the probe request")
	errNoBlock = errors.New("node does not have the block")
	errLow     = errors.New("higher blocks can be read")
)

// A heightSource is a node's CometBFT or REST server as a source of heights. It passes plausible and
// proved claims to the tracker.
type heightSource struct {
	chain    *Chain
	node     *Node
	source   int           // number in the tracker
	tried    time.Time     // when a claim last needed a proof
	hashless int           // consecutive reads without a hash
	header   knownHash     // newest block whose hash the current subscription has streamed; zero for none
	silence  time.Time     // when other nodes stopped saying whether they have the block that this one contradicts; zero if they do, or it does not
	polled   waker         // a poll has ended
	pollNow  chan struct{} // has a value if the next poll must begin at once
	nextPoll *time.Timer   // fires when the next poll is due
}

// claim passes a claim of the source to the tracker if it is plausible or proved, and reports whether it
// is. The claim and hashes, the hashes of earlier blocks, were read in epoch. by is as in knownHash.
func (s *heightSource) claim(ctx context.Context, epoch int64, claim tip.Claim, hashes map[int64]string, by *heightSource) bool {
	s.node.update(func(v *State) { v.Spoke = time.Now() })
	now := s.chain.Tip().Epoch
	claim.Proved = claim.Proved && now == epoch
	falls := s.falls(claim.Height)
	if falls {
		defer s.chain.contradict()()
	}
	needsProof := falls || !claim.Proved && !s.chain.tip.Plausible(s.source, claim.Height)
	if needsProof && (!s.prove(ctx, &claim, falls) || s.chain.Tip().Epoch != now) { // a new epoch polls again
		return false
	}
	restored := s.chain.tip.Accept(s.source, claim)
	s.chain.hashes.addAll(hashes, by, func() bool { return s.chain.Tip().Epoch == epoch })
	s.node.update(func(v *State) {
		v.Height, v.Heard, v.Distrusted = claim.Height, time.Now(), v.Distrusted && !restored
		if !claim.Time.IsZero() {
			v.BlockTime = claim.Time
		}
	})
	if restored {
		s.node.Logger.Info("trusting the node's height source again", "height", claim.Height)
	}
	s.chain.moved.notify()
	return true
}

// falls reports whether a height is below the node's known height. If that is unknown, as it is after
// distrust, falls compares with the highest proved height of the chain.
func (s *heightSource) falls(height int64) bool {
	known := s.node.State().Height
	return height < known || known == 0 && height < s.chain.tip.Proved()
}

// prove proves an implausible claim by a read at its height. If the node does not have the block, the source is distrusted.
// It is also distrusted if the read fails, unless no tip is known yet: the claim is then accepted without a proof.
func (s *heightSource) prove(ctx context.Context, claim *tip.Claim, falls bool) bool {
	if time.Since(s.tried) < s.pollInterval() && s.chain.tip.Distrusts(s.source) {
		return false
	}
	s.tried = time.Now()
	if falls {
		return s.proveFall(ctx, claim)
	}
	has, err := s.node.has(ctx, s.chain, claim.Height)
	for range 2 { // the block may just have been committed and not be readable yet
		if has || err != nil || upstream.Sleep(ctx, proofPause) != nil {
			break
		}
		has, err = s.node.has(ctx, s.chain, claim.Height)
	}
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil && has:
		claim.Proved = true
		return true
	case err != nil && s.chain.Tip().Height == 0:
		return true
	}
	s.distrust(claim.Height, cmp.Or(err, errNoBlock))
	return false
}

// proveFall checks a claim below a known height. It reads the node at its known height and at the proved
// height of the chain. If the node can read one of them, the claim was too low: it becomes that height, or is wrong if it was more
// than tip.Slack below it. If the node does not serve the probe, the claim is accepted without a read, and after another failure it
// is ignored. The lower claim of a distrusted source is accepted only if no node can read the proved height.
func (s *heightSource) proveFall(ctx context.Context, claim *tip.Claim) bool {
	epoch, proved := s.chain.Tip().Epoch, s.chain.tip.Proved()
	if s.chain.tip.Distrusts(s.source) && claim.Height < proved {
		answered, refused := s.chain.canRead(ctx, proved)
		return refused && !answered
	}
	for _, high := range []int64{s.node.State().Height, proved} {
		if high <= claim.Height {
			continue
		}
		switch has, err := s.node.has(ctx, s.chain, high); {
		case err != nil:
			return errors.Is(err, errNoProbe)
		case has && claim.Height < high-tip.Slack:
			s.chain.tip.Prove(epoch, high)
			s.distrust(claim.Height, errLow)
			return false
		case has:
			*claim = tip.Claim{Height: high, CatchingUp: claim.CatchingUp, Proved: true}
			return true
		}
	}
	return true
}

// distrust distrusts the source, and logs this once.
func (s *heightSource) distrust(height int64, cause error) {
	if !s.chain.tip.Distrust(s.source) {
		return
	}
	s.node.update(func(v *State) { v.Distrusted, v.Height, v.Heard = true, 0, time.Time{} })
	s.node.Logger.Warn("ignoring the node's height source", "claims", height, "tip", s.chain.Tip().Height, "cause", cause.Error())
	s.chain.moved.notify()
}

// pollInterval returns the time between two polls, about one block.
func (s *heightSource) pollInterval() time.Duration { return min(s.chain.Tip().Interval, maxSilence) }

// verify proves the tip when a request could not be answered at it. Otherwise clients would wait for a
// plausible but wrong claim until the chain reaches it.
func (c *Chain) verify(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.doubts:
		}
		if height, doubtful := c.tip.Doubtful(); doubtful {
			c.guard(func() { c.proveTip(ctx, height) })
		}
	}
}

// proveTip reads the nodes whose sources claim a height, and distrusts the sources whose node does not have it.
func (c *Chain) proveTip(ctx context.Context, height int64) {
	for _, s := range c.sources() {
		if !c.tip.Claims(s.source, height) {
			continue
		}
		epoch := c.Tip().Epoch
		switch has, err := s.node.has(ctx, c, height); {
		case err == nil && has:
			c.tip.Prove(epoch, height)
		case err == nil && c.tip.Claims(s.source, height): // still: the node may fall, which its source finds out
			s.distrust(height, errNoBlock)
		}
	}
}

// RecordReading updates the tip and the node's state from a read at a height that began in epoch. A read at the node's latest
// height shows nothing, because the node may report a wrong height. A refusal at or above the tip does not move Lowest, which
// is never above the tip.
func (c *Chain) RecordReading(n *Node, epoch int64, r Reading) {
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
	case r.Height <= tip.Height: // Future
		upstream.Wake(c.doubts)
	}
}

// PollNow polls the sources of a node at once and waits for the polls. It reports whether the tip is known
// afterwards. Callers use it when a node has responded while no tip is known, as after an outage.
func (c *Chain) PollNow(ctx context.Context, n *Node) bool {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	var polls []<-chan struct{}
	for _, s := range c.sources() {
		if s.node == n {
			polls = append(polls, s.startPoll())
		}
	}
	for moved := c.Moved(); len(polls) > 0 && !c.Tip().Known; {
		select {
		case <-polls[0]:
			polls = polls[1:]
		case <-moved:
			moved = c.Moved()
		case <-ctx.Done():
			return false
		}
	}
	return c.Tip().Known
}

// keepPolling polls until ctx ends. It waits for the duration that the previous poll returned.
func (s *heightSource) keepPolling(ctx context.Context, poll func(context.Context) (next time.Duration)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.pollNow:
		case <-s.nextPoll.C:
		}
		next := maxPollInterval
		upstream.GuardInput(s.node.Logger, "heights", func() { next = poll(ctx) })
		s.nextPoll.Reset(next)
	}
}

// startPoll makes the source poll at once, and returns a channel that is closed at the end of this poll.
func (s *heightSource) startPoll() (done <-chan struct{}) {
	done = s.polled.next()
	upstream.Wake(s.pollNow)
	return done
}
