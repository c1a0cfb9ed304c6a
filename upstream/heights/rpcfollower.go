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
	maxSilence   = 10 * time.Second // between two polls of the watchdog
)

var (
	errWrongChain = errors.New("node serves another chain")
	errSilent     = errors.New("node has new blocks but does not stream their headers")
)

// An rpcFollower follows one node's CometBFT. It runs on the goroutine of run, except for reading the
// WebSocket and polling.
type rpcFollower struct {
	*heightSource
	streamed   int64 // newest streamed height
	headers    int   // number of accepted headers
	sockets    int   // number of subscriptions
	loggedLoss bool  // logged that the node streams no headers
	fork       int64 // a block that differs from the chain's; 0 if none

	settle func() // settles the contradiction by a header; nil if there is none
}

// run follows the node's subscription until ctx ends, and polls while there is none.
func (f *rpcFollower) run(ctx context.Context) {
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
		if !f.loggedLoss {
			f.node.Logger.Warn("no block headers from node, polling its height", "error", err)
			f.loggedLoss = true
		}
		_ = f.guard(func() error {
			f.poll(ctx, backoff/2+rand.N(backoff/2))
			return nil
		})
		backoff = min(2*backoff, maxBackoff)
	}
}

// follow subscribes and handles headers until the subscription fails.
func (f *rpcFollower) follow(ctx context.Context) error {
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
	f.checkFork(ctx)
	if f.sockets++; f.sockets > 1 {
		f.chain.o.Reconnected(f.node.Name)
	}
	f.streamed = f.node.Look().Height
	f.node.update(func(v *State) { v.Connected = true })
	defer f.node.recordDisconnect()

	var reader sync.WaitGroup
	defer reader.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages := make(chan message)
	reader.Go(func() { f.readMessages(ctx, subscription, messages) })
	return f.watch(ctx, messages)
}

// A message is a header, or the error that ended the subscription.
type message struct {
	header comet.Header
	err    error
}

// readMessages sends the subscription's messages until an error, which is the last message, or until ctx ends.
func (f *rpcFollower) readMessages(ctx context.Context, s comet.Headers, messages chan<- message) {
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

// watch handles headers, and regularly polls the node as well, because a proxy may connect the WebSocket to
// another server.
func (f *rpcFollower) watch(ctx context.Context, messages <-chan message) error {
	ctx, cancel := context.WithCancel(ctx)
	watchdog := time.NewTimer(f.silenceLimit())
	var polls <-chan pollResult
	defer func() {
		cancel()
		watchdog.Stop()
		if polls != nil {
			(<-polls).done()
		}
	}()
	headers, urgent := f.headers, false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-messages:
			err := f.guard(func() error { return f.handle(ctx, m) })
			if err != nil && !errors.Is(err, upstream.ErrPanicked) { // a header that panics is dropped
				return err
			}
		case <-f.pollNow:
			urgent = true
			watchdog.Reset(0)
		case <-watchdog.C:
			if polls == nil {
				polls, urgent = f.startRead(ctx), false
			}
		case p := <-polls:
			polls = nil
			streams := f.headers > headers
			headers = f.headers
			if err := f.handlePoll(ctx, p, streams); err != nil {
				return err
			}
			watchdog.Reset(f.nextPoll(streams, urgent))
		}
	}
}

// nextPoll returns the time to the watchdog's next poll. It is three blocks while headers arrive.
func (f *rpcFollower) nextPoll(streams, urgent bool) time.Duration {
	switch {
	case urgent:
		return 0
	case streams:
		return f.silenceLimit()
	default:
		return f.pollInterval()
	}
}

// silenceLimit returns how long the WebSocket may be silent before the watchdog polls: three blocks, or one
// poll interval for a node that catches up.
func (f *rpcFollower) silenceLimit() time.Duration {
	if f.node.Look().CatchingUp {
		return f.pollInterval()
	}
	return min(3*f.chain.Tip().Interval, maxSilence)
}

// handle handles a message of the subscription.
func (f *rpcFollower) handle(ctx context.Context, m message) error {
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
		if f.settle == nil { // the watchdog finds out whether the header is right
			f.settle = f.chain.contradict()
			f.startPoll()
		}
		return nil
	}
	if !f.claim(ctx, epoch, tip.Claim{Height: h.Height, Time: h.Time}, map[int64]string{h.Height - 1: h.Last.Hash}) {
		return nil
	}
	f.headers++
	f.streamed = h.Height
	f.node.recordHeader(h.Time, f.chain.Tip().Interval)
	f.node.update(func(v *State) { v.Late = false })
	if f.loggedLoss {
		f.node.Logger.Info("receiving block headers from node again", "height", h.Height)
		f.loggedLoss = false
	}
	return nil
}

// poll polls for d, or until a node that was down responds again.
func (f *rpcFollower) poll(ctx context.Context, d time.Duration) {
	end := time.After(d)
	for {
		wasDown := f.node.Look().CometDown
		if err := f.check(ctx); err == nil && wasDown {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-f.pollNow:
		case <-time.After(f.pollInterval()):
		}
	}
}

// A pollResult is the result of polling a node's RPC server.
type pollResult struct {
	before State // the node's state before the poll
	status comet.Status
	height int64 // newest committed block
	err    error
	done   func() // ends the poll
}

// startRead polls on a goroutine of its own, so that headers are handled meanwhile. The caller must receive the
// result and call done.
func (f *rpcFollower) startRead(ctx context.Context) <-chan pollResult {
	results, done := make(chan pollResult, 1), f.polled.begin()
	go func() {
		var p pollResult
		if err := f.guard(func() error { p = f.read(ctx); return nil }); err != nil {
			p = pollResult{before: f.node.Look(), err: err}
		}
		p.done = done
		results <- p
	}()
	return results
}

// handlePoll handles a poll of the watchdog. If the WebSocket has not streamed a block that the node has, the
// subscription is dead or late and ends. While headers arrive, it survives failures of the RPC server.
func (f *rpcFollower) handlePoll(ctx context.Context, p pollResult, streams bool) error {
	defer p.done()
	before := p.before
	if before.Height > f.streamed && !before.CatchingUp && !before.Distrusted {
		return errSilent
	}
	if streams && p.err != nil && ctx.Err() == nil {
		return nil
	}
	if err := f.accept(ctx, p); err != nil {
		return err
	}
	// The headers of a node that catches up are ignored, so none was missed.
	// A node that was rolled back streams lower ones.
	now := f.node.Look()
	if now.Height < f.streamed {
		f.checkFork(ctx)
	}
	if before.CatchingUp || now.Height < f.streamed {
		f.streamed = now.Height
	}
	return nil
}

// check polls the chain id and the newest height.
func (f *rpcFollower) check(ctx context.Context) error {
	defer f.polled.begin()()
	return f.accept(ctx, f.read(ctx))
}

// read reads /status, whose height may be ahead of the newest readable block, and /abci_info. If /abci_info
// fails, as it does while the execution client hangs, the known height shows that the node is alive.
func (f *rpcFollower) read(ctx context.Context) (p pollResult) {
	p.before = f.node.Look()
	if p.status, p.err = f.node.Comet.Status(ctx); p.err != nil {
		return p
	}
	known := p.before.Height
	if p.height = p.status.Height; p.height != known {
		p.height, p.err = f.node.Comet.Committed(ctx)
	}
	if p.err != nil && known > 0 {
		p.height, p.err = min(p.status.Height, known), nil
	}
	return p
}

// accept updates the node's state from a poll and makes its claim.
func (f *rpcFollower) accept(ctx context.Context, p pollResult) error {
	if f.settle != nil {
		defer f.settle()
		f.settle = nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := p.err
	if p.status.ChainID != "" && !f.chain.admit(f.node, p.status.ChainID) {
		err = errWrongChain
	} else if p.status.ChainID != "" {
		f.node.update(func(v *State) {
			v.CatchingUp, v.BlockTime, v.TxIndex, v.NoEvents = p.status.CatchingUp, p.status.Time, p.status.TxIndex, p.status.NoEvents
		})
	}
	if err == nil {
		f.claimHashed(ctx, f, tip.Claim{Height: p.height, CatchingUp: p.status.CatchingUp})
		f.node.suggestLowest(min(p.status.Earliest, f.chain.Tip().Height))
	}
	f.node.update(func(v *State) { v.CometErr, v.CometDown, v.Unseen = err, err != nil, false })
	f.chain.moved.notify()
	return err
}
