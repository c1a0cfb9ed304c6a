package heights

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream/node/heights/comet"
	"github.com/tipcache/tipcache/upstream/node/heights/tip"
)

const (
	firstBackoff = 250 * time.Millisecond
	maxBackoff   = 10 * time.Second
	maxPatience  = 10 * time.Second // of the watchdog, however slow the chain
)

var (
	errWrongChain = errors.New("serves another chain")
	errSilent     = errors.New("blocks are made but their headers do not arrive")
)

// A follower keeps what CometBFT says of one node's chain up to date. All
// of it runs on the goroutine of run; only the socket is read on another.
type follower struct {
	claimant
	streamed int64 // newest height that came through the socket
	headers  int   // that counted, so far
	sockets  int   // subscriptions so far
	told     bool  // that there are no headers
	fork     int64 // a block of which it has another than ours; 0: none
}

// run follows until ctx ends: a subscription while it lives, polls between.
func (f *follower) run(ctx context.Context) {
	backoff := firstBackoff
	for ctx.Err() == nil {
		headers := f.headers
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if f.headers > headers {
			backoff = firstBackoff
		}
		if !f.told {
			f.node.log.Warn("node streams no block headers, its height is polled", "error", err)
			f.told = true
		}
		f.poll(ctx, backoff/2+rand.N(backoff/2))
		backoff = min(2*backoff, maxBackoff)
	}
}

// poll stands in for the subscription for some time.
func (f *follower) poll(ctx context.Context, d time.Duration) {
	enough := time.After(d)
	for {
		_ = f.check(ctx) // noted in the endpoint's health
		select {
		case <-ctx.Done():
			return
		case <-enough:
			return
		case <-time.After(f.beat()):
		}
	}
}

// beat is the time between two polls: about one block.
func (f *follower) beat() time.Duration { return min(f.chain.Tip().Interval, maxPatience) }

// follow subscribes and watches until the subscription has to be given up.
func (f *follower) follow(ctx context.Context) error {
	subscription, err := f.node.comet.Subscribe(ctx)
	if err != nil {
		f.node.update(func(v *State) { v.CometErr = err })
		return err
	}
	f.node.update(func(v *State) { v.Lowest = 0 }) // it may have been restarted with other blocks
	defer subscription.Close()
	if err := f.check(ctx); err != nil {
		return err
	}
	f.recognizeNewest(ctx)
	if f.sockets++; f.sockets > 1 {
		f.chain.o.Reconnected(f.node.name)
	}
	f.streamed = f.node.Look().Height
	f.node.update(func(v *State) { v.Connected = true })
	defer f.node.update(func(v *State) { v.Connected = false })

	var reader sync.WaitGroup
	defer reader.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages := make(chan message)
	reader.Go(func() { pump(ctx, subscription, messages) })
	return f.watch(ctx, messages)
}

// A message is a header, or the error that ended the subscription.
type message struct {
	header comet.Header
	err    error
}

// pump reads until an error, which is the last message, or the end of ctx.
func pump(ctx context.Context, s *comet.Subscription, messages chan<- message) {
	for {
		var m message
		m.header, m.err = s.Next(ctx)
		select {
		case messages <- m:
		case <-ctx.Done():
			return
		}
		if m.err != nil {
			return
		}
	}
}

// watch takes the headers in, and asks the node itself when none comes.
func (f *follower) watch(ctx context.Context, messages <-chan message) error {
	silence := time.NewTimer(f.patience())
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-messages:
			counted, err := f.take(ctx, m)
			if err != nil {
				return err
			}
			if counted {
				silence.Reset(f.patience())
			}
		case <-silence.C:
			if err := f.patrol(ctx); err != nil {
				return err
			}
			silence.Reset(f.beat())
		}
	}
}

// patience is how long the socket may be silent: three blocks. A node that
// catches up is polled instead.
func (f *follower) patience() time.Duration {
	if f.node.Look().CatchingUp {
		return f.beat()
	}
	return min(3*f.chain.Tip().Interval, maxPatience)
}

// take says whether a message was a header that counts.
func (f *follower) take(ctx context.Context, m message) (bool, error) {
	h, epoch := m.header, f.chain.Tip().Epoch
	switch {
	case m.err != nil:
		f.node.update(func(v *State) { v.CometErr = m.err })
		return false, m.err
	case h.Height == 0:
		return false, nil
	case !f.admit(h.ChainID):
		return false, errWrongChain
	case !f.recognize(ctx, epoch, h.Height-1, h.Last.Hash) || f.node.Look().CatchingUp:
		return false, nil
	}
	if !f.claim(ctx, tip.Claim{Height: h.Height, Time: h.Time}) {
		return false, nil
	}
	if f.chain.Tip().Epoch == epoch {
		f.chain.anchors.note(h.Height-1, h.Last.Hash)
	}
	f.headers++
	f.streamed = h.Height
	if f.told {
		f.node.log.Info("node streams block headers again", "height", h.Height)
		f.told = false
	}
	return true, nil
}

// patrol asks the node directly after a silence. A block that the patrol before
// had found and that did not come through the socket since means that the
// socket is dead; a chain that stands still does not.
func (f *follower) patrol(ctx context.Context) error {
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
	err := f.ask(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.node.update(func(v *State) { v.CometErr, v.CometDown, v.Unseen = err, err != nil, false })
	f.chain.moved.flash()
	return err
}

// ask takes in what /status says. The height there may run ahead of what can
// be read, so /abci_info says the rest; while the execution client hangs that
// does not answer, and a height that is no news is a sign of life.
func (f *follower) ask(ctx context.Context) error {
	status, err := f.node.comet.Status(ctx)
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
		height, err = f.node.comet.Committed(ctx)
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
		f.node.log.Error("node serves another chain and is not used", "chain", chainID, "want", f.chain.ChainID())
	case before.Refused:
		f.node.log.Info("node serves our chain again", "chain", chainID)
	}
	return ours
}
