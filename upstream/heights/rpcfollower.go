package heights

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
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

	settle func() // ends the doubt that a header has cast on the tip; nil for none
}

// run follows until ctx ends: a subscription while it lives, polls between.
func (f *follower) run(ctx context.Context) {
	backoff := firstBackoff
	for ctx.Err() == nil {
		headers := f.headers
		err := f.guard(func() error { return f.follow(ctx) })
		if ctx.Err() != nil {
			return
		}
		if f.headers > headers {
			backoff = firstBackoff
		}
		if !f.told {
			f.node.Logger.Warn("no block headers from node, polling its height", "error", err)
			f.told = true
		}
		_ = f.guard(func() error {
			f.poll(ctx, backoff/2+rand.N(backoff/2))
			return nil
		})
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
	f.node.Forget()
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
	reader.Go(func() { f.pump(ctx, subscription, messages) })
	return f.watch(ctx, messages)
}

// A message is a header, or the error that ended the subscription.
type message struct {
	header comet.Header
	err    error
}

// pump reads until an error, which is the last message, or the end of ctx.
func (f *follower) pump(ctx context.Context, s comet.Headers, messages chan<- message) {
	for {
		var m message
		m.err = f.guard(func() (err error) {
			m.header, err = s.Next(ctx)
			return err
		})
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
			err := f.guard(func() error { return f.handle(ctx, m) })
			if err != nil && !errors.Is(err, upstream.ErrPanicked) { // a header that panics is dropped
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

// handle takes a message in.
func (f *follower) handle(ctx context.Context, m message) error {
	h, epoch, known := m.header, f.chain.Tip().Epoch, f.node.Look()
	switch {
	case m.err != nil:
		f.node.update(func(v *State) { v.CometErr = m.err })
		return m.err
	case h.Height == 0:
		return nil
	case !f.chain.admit(f.node, h.ChainID):
		return errWrongChain
	case !f.isOurs(ctx, epoch, h.Height-1, h.Last.Hash), known.CatchingUp:
		return nil
	case h.Height < known.Height && known.Height <= f.chain.tip.Proved():
		if f.settle == nil { // which of the two is right is for the watchdog to find out
			f.settle = f.chain.contradict()
			f.seek()
		}
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
		f.node.Logger.Info("receiving block headers from node again", "height", h.Height)
		f.told = false
	}
	return nil
}

// poll stands in for the subscription for a time, or until a node that was lost answers again.
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

// inquire asks until ctx ends, without holding up the headers. The survey must be judged.
func (f *follower) inquire(ctx context.Context) <-chan survey {
	answers, over := make(chan survey, 1), f.round.begin()
	go func() {
		var s survey
		if err := f.guard(func() error { s = f.survey(ctx); return nil }); err != nil {
			s = survey{before: f.node.Look(), err: err}
		}
		s.over = over
		answers <- s
	}()
	return answers
}

// judge takes in what the watchdog has found. A block that the node was known to have, and that did
// not come through the socket since, means that the socket is dead or behind. Where headers come,
// their socket outlives an RPC server that does not answer.
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

// survey asks for /status, whose height may run ahead of what can be read, and for /abci_info.
// While that does not answer, as the execution client hangs, a height that is no news is a sign of
// life.
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
	if f.settle != nil {
		defer f.settle()
		f.settle = nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := s.err
	if s.status.ChainID != "" && !f.chain.admit(f.node, s.status.ChainID) {
		err = errWrongChain
	} else if s.status.ChainID != "" {
		f.node.update(func(v *State) {
			v.CatchingUp, v.BlockTime, v.TxIndex, v.NoEvents = s.status.CatchingUp, s.status.Time, s.status.TxIndex, s.status.NoEvents
		})
	}
	if err == nil {
		f.claimHashed(ctx, f, tip.Claim{Height: s.height, CatchingUp: s.status.CatchingUp})
		f.node.suggestLowest(min(s.status.Earliest, f.chain.Tip().Height))
	}
	f.node.update(func(v *State) { v.CometErr, v.CometDown, v.Unseen = err, err != nil, false })
	f.chain.moved.notify()
	return err
}
