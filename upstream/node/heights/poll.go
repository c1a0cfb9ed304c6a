package heights

import (
	"context"
	"time"

	"github.com/tipcache/tipcache/upstream/node/heights/tip"
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

// checkSilence asks the node directly after a silence. A block that the check before
// had found and that did not come through the socket since means that the
// socket is dead; a chain that stands still does not.
func (f *follower) checkSilence(ctx context.Context) error {
	before := f.node.Look()
	if before.Height > f.streamed && !before.CatchingUp && !before.Aside {
		return errSilent
	}
	if err := f.check(ctx); err != nil {
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
	err := f.ask(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.node.update(func(v *State) { v.CometErr, v.CometDown, v.Unseen = err, err != nil, false })
	f.chain.moved.notify()
	return err
}

// ask takes in what /status says. The height there may run ahead of what can
// be read, so /abci_info says the rest; while the execution client hangs that
// does not answer, and a height that is no news is a sign of life.
func (f *follower) ask(ctx context.Context) error {
	status, err := f.node.Comet.Status(ctx)
	if err != nil {
		return err
	}
	if !f.admit(status.ChainID) {
		return errWrongChain
	}
	known := f.node.Look().Height
	f.node.update(func(v *State) {
		v.CatchingUp, v.BlockTime, v.Lowest = status.CatchingUp, status.Time, max(v.Lowest, status.Earliest)
	})
	height := status.Height
	if height != known {
		height, err = f.node.Comet.Committed(ctx)
	}
	switch {
	case err != nil && known == 0:
		return err
	case err != nil:
		height = min(status.Height, known)
	}
	if f.fork == 0 {
		f.claim(ctx, tip.Claim{Height: height, CatchingUp: status.CatchingUp})
	}
	return nil
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
