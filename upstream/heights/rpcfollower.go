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
	maxSilence   = 10 * time.Second // maximum time between two polls while headers arrive
)

var (
	errWrongChain = errors.New("node serves another chain")
	errSilent     = errors.New("node has new blocks but does not stream their headers")
)

// An rpcFollower follows one node's CometBFT. One goroutine reads the headers of the subscription and another one polls,
// because a proxy may connect the WebSocket to another server.
type rpcFollower struct {
	*heightSource
	up chan struct{} // has a value if a node that was down responds again

	// turn holds a value while a header or a poll is handled, and guards the following fields. It is not a mutex, because synctest's
	// clock stops while a goroutine waits for one.
	turn       chan struct{}
	end        context.CancelCauseFunc // ends the subscription; nil if there is none
	streamed   int64                   // newest streamed height
	headers    int                     // number of accepted headers
	seen       int                     // headers at the last poll
	loggedLoss bool                    // logged that the node streams no headers
	settle     func()                  // ends the contradiction that a header began; nil if there is none
}

// run subscribes to the node's headers until ctx ends, and polls.
func (f *rpcFollower) run(ctx context.Context) {
	f.nextPoll = time.NewTimer(f.pollInterval())
	var polls sync.WaitGroup
	defer polls.Wait()
	polls.Go(func() { f.keepPolling(ctx, f.poll) })
	headers, backoff := 0, firstBackoff
	for ctx.Err() == nil {
		err := upstream.Guard(f.node.Logger, "heights", func() error { return f.follow(ctx) })
		if ctx.Err() != nil {
			return
		}
		if n := f.recordLoss(err); n > headers {
			headers, backoff = n, firstBackoff
		}
		f.startPoll()
		select {
		case <-ctx.Done():
		case <-f.up:
		case <-time.After(backoff/2 + rand.N(backoff/2)):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// takeTurn waits until no other header or poll is being handled.
func (f *rpcFollower) takeTurn() (end func()) {
	f.turn <- struct{}{}
	return func() { <-f.turn }
}

// recordLoss logs why a subscription ended, once until a header arrives again. It returns the number of accepted headers.
func (f *rpcFollower) recordLoss(err error) (headers int) {
	defer f.takeTurn()()
	if !f.loggedLoss {
		f.node.Logger.Warn("no block headers from node, polling its height", "error", err)
		f.loggedLoss = true
	}
	return f.headers
}

// follow subscribes and handles headers until the subscription fails.
func (f *rpcFollower) follow(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	subscription, err := f.node.Comet.Subscribe(ctx)
	if err != nil {
		f.node.update(func(v *State) { v.CometErr = err })
		return err
	}
	f.node.ForgetLowest()
	defer subscription.Close()
	if err := f.beginStream(ctx, end); err != nil {
		return err
	}
	defer f.disconnect()
	for {
		h, err := subscription.Next(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			f.node.update(func(v *State) { v.CometErr = err })
			return err
		}
		err = upstream.Guard(f.node.Logger, "heights", func() error { return f.handle(ctx, h) })
		if err != nil && !errors.Is(err, upstream.ErrPanicked) { // a header that panics is dropped
			return err
		}
	}
}

// beginStream begins a subscription with a poll, because headers may have been missed. The subscription ends when end is
// called.
func (f *rpcFollower) beginStream(ctx context.Context, end context.CancelCauseFunc) error {
	defer f.polled.take()()
	p := f.read(ctx)
	defer f.takeTurn()()
	if err := f.accept(ctx, p); err != nil {
		return err
	}
	f.checkFork(ctx)
	now := f.node.State()
	if now.Lost > 0 {
		f.chain.o.Reconnected(f.node.Name)
	}
	f.end, f.streamed, f.seen = end, now.Height, f.headers
	f.node.update(func(v *State) { v.Connected = true })
	f.nextPoll.Reset(f.silenceLimit())
	return nil
}

func (f *rpcFollower) disconnect() {
	defer f.takeTurn()()
	f.end, f.header = nil, knownHash{}
	f.chain.hashes.endSubscription(f.heightSource)
	n := f.node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state.Connected = false
	n.state.Lost++
	n.delays.late += n.delays.overdue(time.Now())
	n.delays.at = time.Time{}
}

// silenceLimit returns the time between two polls while headers arrive: three block intervals, or one
// poll interval for a node that catches up.
func (f *rpcFollower) silenceLimit() time.Duration {
	if f.node.State().CatchingUp {
		return f.pollInterval()
	}
	return min(3*f.chain.Tip().Interval, maxSilence)
}

func (f *rpcFollower) handle(ctx context.Context, h comet.Header) error {
	defer f.takeTurn()()
	epoch, known := f.chain.Tip().Epoch, f.node.State()
	if h.Height == 0 {
		return nil
	}
	if !f.chain.admit(f.node, h.ChainID) {
		return errWrongChain
	}
	if h.Last.Hash != "" {
		f.header = knownHash{height: h.Height - 1, hash: h.Last.Hash}
	}
	if ours := f.checkHash(ctx, epoch, h.Height-1, h.Last.Hash); !ours || known.CatchingUp {
		return nil
	}
	if h.Height < known.Height && known.Height <= f.chain.tip.Proved() { // if the known height was not proved, f.claim below decides
		if f.settle == nil { // the next poll, or a higher header, shows whether the header is right
			f.settle = f.chain.contradict()
			f.startPoll()
		}
		return nil
	}
	hashes := map[int64]string{h.Height - 1: h.Last.Hash}
	if h.Height-1 > f.chain.Tip().Height { // the header may be false, and its claim only plausible
		hashes = nil
	}
	var by *heightSource
	if f.chain.othersStream(f.node, h.Height) {
		by = f.heightSource
	}
	if !f.claim(ctx, epoch, tip.Claim{Height: h.Height, Time: h.Time}, hashes, by) {
		return nil
	}
	f.endContradiction()
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

// endContradiction ends the contradiction that a header began, if any.
func (f *rpcFollower) endContradiction() {
	if f.settle != nil {
		f.settle()
		f.settle = nil
	}
}

// A pollResult is the result of polling a node's RPC server.
type pollResult struct {
	before State // the node's state before the poll
	status comet.Status
	height int64 // newest committed block
	err    error
}

// poll polls once, and returns the time until the next poll. Headers are handled while it reads.
func (f *rpcFollower) poll(ctx context.Context) (next time.Duration) {
	defer f.polled.take()()
	p := f.read(ctx)
	defer f.takeTurn()()
	streams := f.headers > f.seen
	f.seen = f.headers
	if f.end == nil {
		if f.accept(ctx, p) == nil && p.before.CometDown {
			upstream.Wake(f.up)
		}
	} else if err := f.checkStream(ctx, p, streams); err != nil {
		f.end(err)
	}
	if streams {
		return f.silenceLimit()
	}
	return f.pollInterval()
}

// checkStream handles a poll during a subscription. If the WebSocket has not streamed a block that the node has, the
// subscription is dead or late and ends. While headers arrive, it survives failures of the RPC server.
func (f *rpcFollower) checkStream(ctx context.Context, p pollResult, streams bool) error {
	before := p.before
	if before.Connected && before.Height > f.streamed && !before.CatchingUp && !before.Distrusted {
		return errSilent
	}
	if streams && p.err != nil && ctx.Err() == nil {
		return nil
	}
	if err := f.accept(ctx, p); err != nil {
		return err
	}
	now := f.node.State()
	if now.Height < f.streamed {
		f.checkFork(ctx)
	}
	// The headers of a node that catches up are ignored, and those of one that was rolled back are lower: none was missed.
	if before.CatchingUp || now.Height < f.streamed {
		f.streamed = now.Height
	}
	return nil
}

// read reads /status, whose height may be ahead of the newest readable block, and /abci_info. If /abci_info fails, as it does
// while the execution client hangs, it returns the known height, because /status shows that the node is alive.
func (f *rpcFollower) read(ctx context.Context) (p pollResult) {
	p.before = f.node.State()
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
	defer f.endContradiction()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := p.err
	if p.status.ChainID != "" && !f.chain.admit(f.node, p.status.ChainID) {
		err = errWrongChain
	} else if p.status.ChainID != "" {
		f.node.update(func(v *State) {
			v.CatchingUp, v.BlockTime = p.status.CatchingUp, p.status.Time
			v.TxIndex, v.Version, v.NoEvents = p.status.TxIndex, p.status.Version, p.status.NoEvents
		})
	}
	if err == nil {
		f.claimHashed(ctx, f.blockHash, tip.Claim{Height: p.height, CatchingUp: p.status.CatchingUp})
	}
	f.node.update(func(v *State) {
		v.CometErr, v.CometDown, v.Unseen = err, err != nil, false
		if err == nil && v.Lowest == 0 { // reads have not set it
			v.Lowest = max(0, min(p.status.Earliest, f.chain.Tip().Height))
		}
	})
	f.chain.moved.notify()
	return err
}
