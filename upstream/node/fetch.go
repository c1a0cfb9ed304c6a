package node

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream"
)

const (
	maxFailed  = 2 // number of endpoints that may fail a request that was sent to them
	firstPause = 25 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// Fetch sends a request to an endpoint, and to others if one fails, has pruned the height or does not have it yet. If the chain
// has the block but no endpoint can read it yet, Fetch waits until ctx ends. A read at the tip waits for two block
// intervals, at most half of the time left, and then reads the newest block that an endpoint has. An endpoint with CometBFT is used
// after Run has checked its chain.
//
// While a node commits a block, it may answer a read at the block before with the state of the new one. An answer is
// therefore Unsettled unless the request was sent after the node could read a higher block. The answer of a parent is
// settled if the parent calls it immutable.
//
// The error is always an *upstream.Error, or context.Canceled.
func (p *Pool) Fetch(ctx context.Context, r Request) (*Answer, error) {
	f := &fetch{pool: p, request: r, pause: firstPause}
	if err := p.refusals.of(r); err != nil {
		return nil, err
	}
	answer, err := f.run(ctx)
	err = f.blame(answer, err)
	answer, err = f.settle(answer, err)
	if err != nil && f.heightless != nil {
		return f.heightless, nil
	}
	return answer, err
}

func (f *fetch) run(ctx context.Context) (*Answer, error) {
	wait := 2 * f.pool.Tip().Interval
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)/2)
	}
	f.deadline = time.Now().Add(wait)
	for {
		tip, chainID, moved := f.pool.Look()
		e, hope := f.choose(tip, chainID)
		if e != nil {
			if result := f.send(ctx, e); f.take(ctx, result) {
				return result.answer, result.outcome(f.request.writes())
			}
			continue
		}
		if f.tryLowerHeight(hope) {
			continue
		}
		if !hope || f.failure != nil || f.pruned != nil || f.doubtful != nil {
			return f.exhausted()
		}
		if err := f.wait(ctx, moved); err != nil {
			return nil, err
		}
	}
}

// A fetch is one request on its way through the endpoints, on one goroutine.
type fetch struct {
	pool       *Pool
	request    Request
	done       []*endpoint // are not tried again
	lagging    []*endpoint // do not have the height yet, and are tried again after a pause
	pause      time.Duration
	failed     int      // number of endpoints that failed after the request was sent
	failure    error    // of the endpoint that failed last
	suspects   []result // failures of endpoints that the request may have caused
	mayHave    bool     // an endpoint that failed may have the height that others have pruned; see awaits
	pruned     *Answer  // refusal of an endpoint that has pruned the height
	doubtful   *Answer  // answer that another node may contradict; see settle
	heightless *Answer  // answer without a height, received while no tip was known
	broken     bool     // an endpoint was skipped that may work soon: its breaker is open, or it or its chain is not known yet
	far        bool     // an endpoint was skipped because it is too far behind

	newest   int64     // newest height of the endpoints that were skipped because they lag
	lower    int64     // height to read instead of the tip
	deadline time.Time // when it stops waiting for the tip
}

// height returns the height to read at a tip. 0 means the node's latest.
func (f *fetch) height(tip Tip) int64 {
	switch {
	case f.request.Height != AtTip:
		return f.request.Height
	case !tip.Known:
		return 0
	case f.lower > 0:
		return min(tip.Height, f.lower)
	default:
		return tip.Height
	}
}

// heightAt returns the height to read at an endpoint. A parent, which is another tipcache, is read at its newest block. If an answer
// to that had no height, it is read at a height like other nodes.
func (f *fetch) heightAt(e *endpoint, tip Tip) int64 {
	if f.request.Height == AtTip && !f.request.Unpinned && f.heightless == nil && e.client.isParent.Load() {
		return 0
	}
	return f.height(tip)
}

// tryLowerHeight makes a request for the tip read the newest block of the skipped endpoints, and reports whether it did.
// While an endpoint should reach the tip soon, it does nothing before the deadline.
func (f *fetch) tryLowerHeight(hope bool) bool {
	soon := hope && f.failure == nil && !f.pool.Tip().CatchingUp
	switch {
	case f.request.Height != AtTip, f.doubtful != nil,
		f.newest == 0,                         // no endpoint was skipped because it lags
		f.lower > 0 && f.newest >= f.lower,    // a height that low was tried
		soon && time.Now().Before(f.deadline): // an endpoint may reach the tip
		return false
	}
	f.lower = f.newest
	return true
}

// A result is the result of sending the request to one endpoint.
type result struct {
	endpoint *endpoint
	height   int64
	answer   *Answer
	err      error
	began    bool // the request had its turn
}

// outcome returns the error of the result. The error has MayHaveRun if the request changes state and was sent, but there is no usable
// reply.
func (r result) outcome(writes bool) error {
	err, ok := errors.AsType[*upstream.Error](r.err)
	refused := ok && (err.Said != nil && !err.Said.Lost || errors.Is(err, ErrForeign) || errors.Is(err, errRefusedByParent))
	if !writes || !ok || !r.began || r.unsent() || refused {
		return r.err
	}
	unknown := *err
	unknown.MayHaveRun = true
	return &unknown
}

// send sends the request to an endpoint when it has its turn. It determines the height then, as the tip may have moved.
func (f *fetch) send(ctx context.Context, e *endpoint) result {
	r, result := f.request, result{endpoint: e}
	send := func() (*Answer, error) {
		now := f.pool.Tip()
		result.height = f.heightAt(e, now)
		v := e.snapshot()
		if result.height <= now.Height && v.reach(result.height, now) == behind {
			return nil, upstream.ErrBehind
		}
		readable := f.readableAt(ctx, e, v, result.height)
		result.began = true
		answer, err := e.send(ctx, r, result.height)
		if err == nil && !answer.Cached {
			answer.Unsettled = cmp.Or(answer.Height, result.height) >= readable
		}
		switch {
		case err != nil:
			return nil, err
		case r.sentHeight(result.height) == 0:
			if !f.pool.Tip().Allows(answer.Height) {
				answer.Height = 0
			}
		case !answer.Cached && r.readsState():
			f.pool.RecordReading(e.blocks, now.Epoch, answer.reading())
		}
		if answer.Height == 0 && answer.Reason == OK && r.readsState() { // a gateway may drop the header
			answer.Height = r.sentHeight(result.height)
		}
		return answer, nil
	}
	if r.slow() {
		result.answer, result.err = send()
	} else {
		result.answer, result.err = e.inTurn(ctx, r, send)
	}
	if errors.Is(result.err, context.DeadlineExceeded) && upstream.KindOf(result.err) == 0 {
		result.err = upstream.Silence(nodeName, result.err)
	}
	return result
}

// readableAt returns the highest block that an endpoint is known to be able to read: the one that it names, if that has been
// proved. For a request for an earlier block, it first proves it by a cheap read.
func (f *fetch) readableAt(ctx context.Context, e *endpoint, v view, height int64) int64 {
	if f.request.Height > 0 && height < v.Height && f.pool.Proved() <= height && f.request.readsState() {
		if probe, err := e.send(ctx, Request{Path: e.client.protocol.probe}, v.Height); err == nil {
			f.pool.RecordReading(e.blocks, f.pool.Tip().Epoch, probe.reading())
		}
	}
	return min(v.Height, f.pool.Proved())
}

// take records a result and reports whether it is final, which ends the fetch.
func (f *fetch) take(ctx context.Context, r result) bool {
	// A block that was the tip exists, even if the tip has fallen since.
	exists := f.request.Height == AtTip || 0 < r.height && r.height <= f.pool.Tip().Height
	switch {
	case (f.request.Cost == Unknown || f.request.writes() && !r.unsent()) && !errors.Is(r.err, upstream.ErrBehind):
		return true
	case errors.Is(r.err, errTipRefused) && time.Now().After(f.deadline): // until then it counts as lagging
		f.done, f.failure = append(f.done, r.endpoint), r.err
		return false
	case exists && f.reconnectBehind(r):
		f.done, f.failure = append(f.done, r.endpoint), errGRPCBehind
		return false
	case errors.Is(r.err, upstream.ErrBehind), r.is(FutureHeight) && exists:
		f.lagging = append(f.lagging, r.endpoint)
		return false
	case r.is(Pruned):
		f.done, f.pruned = append(f.done, r.endpoint), r.answer
		return false
	case f.request.isSentOnce() && !r.unsent(): // it may have been executed
		return true
	case r.answer.isDoubtful() && f.doubtful == nil:
		f.done, f.doubtful = append(f.done, r.endpoint), r.answer
		return false
	case f.wantsHeight(r) && f.pool.PollNow(ctx, r.endpoint.blocks): // the tip is known now
		f.heightless = r.answer
		return false
	case r.retryable() && ctx.Err() == nil:
		f.done, f.failure = append(f.done, r.endpoint), r.err
		f.mayHave = f.mayHave || f.awaits(r.endpoint)
		if !r.unsent() {
			f.failed++
			if faultOf(r.err) != noFault {
				f.suspects = append(f.suspects, r)
			}
		}
		return f.failed == maxFailed
	default:
		return true
	}
}

// reconnectBehind reconnects a gRPC server that has been refusing blocks which REST or RPC of the same node serve, because its name
// may now stand for another server. It reports whether it did.
func (f *fetch) reconnectBehind(r result) bool {
	switch {
	case f.request.Invoke == nil || r.answer == nil || r.is(Pruned):
		return false
	case !r.is(FutureHeight):
		r.endpoint.grpc.lag.end(r.answer.Height)
		return false
	case r.endpoint.snapshot().Height < r.height || !r.endpoint.grpc.lag.record(r.height):
		return false
	}
	r.endpoint.grpc.reconnect()
	return true
}

// wantsHeight reports whether an answer without a height should be read again at a known height.
func (f *fetch) wantsHeight(r result) bool {
	return f.heightless == nil && r.answer != nil && r.answer.Height == 0 && r.height == 0 && f.request.Height == AtTip && !f.request.Unpinned
}

func (r result) is(reason Reason) bool { return r.answer != nil && r.answer.Reason == reason }

// retryable reports whether another endpoint may succeed. It is false for a full queue. A busy parent is retryable, because the
// other endpoints may have capacity.
func (r result) retryable() bool {
	err, ok := errors.AsType[*upstream.Error](r.err)
	return ok && (err.Kind != upstream.Overloaded || errors.Is(err, errRefusedByParent) || faultOf(err) == overflow)
}

// unsent reports whether no part of the request was sent, because no connection was made or the breaker is open.
func (r result) unsent() bool {
	return isDialError(r.err) || errors.Is(r.err, gobreaker.ErrOpenState) || errors.Is(r.err, gobreaker.ErrTooManyRequests)
}

// wait waits until the tip or a node's state changes, or for a pause that doubles each time. Then endpoints that lagged are tried again.
func (f *fetch) wait(ctx context.Context, moved <-chan struct{}) error {
	select {
	case <-moved:
	case <-time.After(f.pause):
		f.pause = min(2*f.pause, maxPause)
	case <-ctx.Done():
		return f.pool.late(ctx, f.height(f.pool.Tip()))
	case <-f.pool.life.Done():
		return unreachable(errClosed)
	}
	f.lagging = nil
	return nil
}
