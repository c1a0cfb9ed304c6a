package heights

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/heights/tip"
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
	*claimant
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
			f.node.Logger.Warn("node streams no block headers, its height is polled", "error", err)
			f.told = true
		}
		f.poll(ctx, backoff/2+rand.N(backoff/2))
		backoff = min(2*backoff, maxBackoff)
	}
}

// follow subscribes and watches until the subscription has to be given up.
func (f *follower) follow(ctx context.Context) error {
	subscription, err := f.node.Comet.Subscribe(ctx)
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
		f.chain.o.Reconnected(f.node.Name)
	}
	f.streamed = f.node.Look().Height
	f.node.update(func(v *State) { v.Connected = true })
	defer f.node.unsubscribed()

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
func pump(ctx context.Context, s Headers, messages chan<- message) {
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

// watch takes the headers in, and asks the node itself from time to time, whatever
// they say: a socket may lead to another server than the rest.
func (f *follower) watch(ctx context.Context, messages <-chan message) error {
	ctx, cancel := context.WithCancel(ctx)
	watchdog := time.NewTimer(f.patience())
	var answers <-chan survey
	defer func() {
		cancel()
		watchdog.Stop()
		if answers != nil {
			(<-answers).over()
		}
	}()
	headers, sought := f.headers, false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-messages:
			if err := f.handle(ctx, m); err != nil {
				return err
			}
		case <-f.sought:
			sought = true
			watchdog.Reset(0)
		case <-watchdog.C:
			if answers == nil {
				answers, sought = f.inquire(ctx), false
			}
		case s := <-answers:
			answers = nil
			streams := f.headers > headers
			headers = f.headers
			if err := f.judge(ctx, s, streams); err != nil {
				return err
			}
			watchdog.Reset(f.nextSurvey(streams, sought))
		}
	}
}

// nextSurvey is the time to the watchdog's next question: while headers come, three
// blocks. A node that catches up, or whose socket is silent, is polled.
func (f *follower) nextSurvey(streams, sought bool) time.Duration {
	switch {
	case sought:
		return 0
	case streams:
		return f.patience()
	default:
		return f.pollInterval()
	}
}

// patience is how long the socket may be silent, and for how long it is trusted: three
// blocks. A node that catches up is polled instead.
func (f *follower) patience() time.Duration {
	if f.node.Look().CatchingUp {
		return f.pollInterval()
	}
	return min(3*f.chain.Tip().Interval, maxPatience)
}

// isNew says whether a header is not below what the node was read at. Which of the two
// is right is for the watchdog to find out.
func (f *follower) isNew(height int64) bool {
	known := f.node.Look().Height
	return height >= known || known > f.chain.tip.Proved()
}

// handle takes a message in.
func (f *follower) handle(ctx context.Context, m message) error {
	h, epoch := m.header, f.chain.Tip().Epoch
	switch {
	case m.err != nil:
		f.node.update(func(v *State) { v.CometErr = m.err })
		return m.err
	case h.Height == 0:
		return nil
	case !f.admit(h.ChainID):
		return errWrongChain
	case !f.recognize(ctx, epoch, h.Height-1, h.Last.Hash) || f.node.Look().CatchingUp || !f.isNew(h.Height):
		return nil
	}
	if !f.claim(ctx, epoch, tip.Claim{Height: h.Height, Time: h.Time}, map[int64]string{h.Height - 1: h.Last.Hash}) {
		return nil
	}
	f.headers++
	f.streamed = h.Height
	f.node.arrived(h.Time, f.chain.Tip().Interval)
	f.node.update(func(v *State) { v.Late = false })
	if f.told {
		f.node.Logger.Info("node streams block headers again", "height", h.Height)
		f.told = false
	}
	return nil
}
