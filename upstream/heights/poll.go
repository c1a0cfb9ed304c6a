package heights

import (
	"context"
	"time"

	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// poll stands in for the subscription for some time, or until a node that was
// lost answers again.
func (f *follower) poll(ctx context.Context, d time.Duration) {
	enough := time.After(d)
	for {
		lost := f.node.Look().CometDown
		if err := f.check(ctx); err == nil && lost {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-enough:
			return
		case <-f.sought:
		case <-time.After(f.pollInterval()):
		}
	}
}

// A survey is what the RPC server of a node says when it is asked.
type survey struct {
	before State // what was known of the node when it was asked
	status comet.Status
	height int64 // newest committed block
	err    error
	over   func() // ends the round
}

// inquire asks without holding up the headers. The survey must be judged, and what is
// asked ends with ctx.
func (f *follower) inquire(ctx context.Context) <-chan survey {
	answers, over := make(chan survey, 1), f.round.begin()
	go func() {
		s := f.survey(ctx)
		s.over = over
		answers <- s
	}()
	return answers
}

// judge takes in what the watchdog has found. A block that the node was known to have,
// and that did not come through the socket since, means that the socket is dead or
// behind; a chain that stands still does not. Where headers come, their socket
// outlives an RPC server that does not answer.
func (f *follower) judge(ctx context.Context, s survey, streams bool) error {
	defer s.over()
	before := s.before
	if before.Height > f.streamed && !before.CatchingUp && !before.Aside {
		return errSilent
	}
	if streams && s.err != nil && ctx.Err() == nil {
		return nil
	}
	if err := f.accept(ctx, s); err != nil {
		return err
	}
	// The headers of a node that catches up did not count, so none was missed;
	// a node that was set back streams lower ones.
	now := f.node.Look()
	if now.Height < f.streamed {
		f.recognizeNewest(ctx)
	}
	if before.CatchingUp || now.Height < f.streamed {
		f.streamed = now.Height
	}
	return nil
}

// check asks for the chain and the newest height.
func (f *follower) check(ctx context.Context) error {
	defer f.round.begin()()
	return f.accept(ctx, f.survey(ctx))
}

// survey asks for /status. The height there may run ahead of what can be read, so
// /abci_info says the rest; while the execution client hangs that does not answer, and
// a height that is no news is a sign of life.
func (f *follower) survey(ctx context.Context) (s survey) {
	s.before = f.node.Look()
	if s.status, s.err = f.node.Comet.Status(ctx); s.err != nil {
		return s
	}
	known := s.before.Height
	if s.height = s.status.Height; s.height != known {
		s.height, s.err = f.node.Comet.Committed(ctx)
	}
	if s.err != nil && known > 0 {
		s.height, s.err = min(s.status.Height, known), nil
	}
	return s
}

// accept takes in what the node has said, or that it said nothing.
func (f *follower) accept(ctx context.Context, s survey) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := s.err
	if s.status.ChainID != "" && !f.admit(s.status.ChainID) {
		err = errWrongChain
	} else if s.status.ChainID != "" {
		f.node.update(func(v *State) {
			v.CatchingUp, v.BlockTime, v.Lowest = s.status.CatchingUp, s.status.Time, max(v.Lowest, s.status.Earliest)
			v.TxIndex = s.status.TxIndex
		})
	}
	if err == nil {
		f.claimHashed(ctx, f, tip.Claim{Height: s.height, CatchingUp: s.status.CatchingUp})
	}
	f.node.update(func(v *State) { v.CometErr, v.CometDown, v.Unseen = err, err != nil, false })
	f.chain.moved.notify()
	return err
}

// admit lets a node of our chain in and keeps any other out, telling once
// per change.
func (f *follower) admit(chainID string) bool {
	ours := f.chain.ours(chainID)
	before := f.node.Look()
	if before.ChainID == chainID && before.Refused == !ours {
		return ours
	}
	f.node.update(func(v *State) {
		v.ChainID, v.Refused = chainID, !ours
		if !ours {
			v.Height = 0
		}
	})
	switch {
	case !ours:
		f.node.Logger.Error("node serves another chain and is not used", "chain", chainID, "want", f.chain.ChainID())
	case before.Refused:
		f.node.Logger.Info("node serves our chain again", "chain", chainID)
	}
	return ours
}
