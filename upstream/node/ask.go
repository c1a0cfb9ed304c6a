package node

import (
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// ask waits for a turn at the endpoint and asks it.
func (f *fetch) ask(ctx context.Context, e *endpoint) result {
	r := f.request
	if r.Call != nil && r.Call.Slow {
		return f.exchange(ctx, e).told()
	}
	turn, err := e.queue.Acquire(ctx, r.queued())
	if err != nil {
		return result{endpoint: e, err: e.busy(err)}
	}
	answered := false
	defer func() { turn.End(answered) }()
	came := f.exchange(ctx, e)
	answered = tellsOfLoad(came.err)
	return came.told()
}

// exchange asks the endpoint. The tip is looked up now: it has moved on since the request
// began to wait.
func (f *fetch) exchange(ctx context.Context, e *endpoint) result {
	r, now, height := f.request, f.pool.Tip(), f.height()
	v := e.look()
	if height <= now.Height && v.reach(height, now.Interval) == behind {
		return result{endpoint: e, height: height, err: upstream.ErrBehind}
	}
	answer, err := e.ask(ctx, r, height)
	if err == nil && (r.rest() || !r.Unpinned) { // what is asked of blocks says nothing of the state
		f.pool.chain.Learn(e.blocks, now.Epoch, answer.reading())
	}
	return result{endpoint: e, height: height, answer: answer, err: err}
}

// told is the result as the caller is told of it.
func (r result) told() result {
	if errors.Is(r.err, context.DeadlineExceeded) {
		r.err = upstream.Silence(origin, r.err)
	}
	return r
}

// tellsOfLoad tells whether the time that a request took is the node's: it answered, or
// did not in time.
func tellsOfLoad(err error) bool {
	silent, ok := errors.AsType[*upstream.Error](err)
	return err == nil || ok && silent.Kind == upstream.Timeout
}

// busy is the error for a request that got no turn.
func (e *endpoint) busy(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, upstream.ErrYielded) {
		return &upstream.Error{Kind: upstream.Overloaded, Msg: origin + " is busy", Err: err}
	}
	e.metrics.shed.WithLabelValues(e.name).Inc()
	return &upstream.Error{
		Kind: upstream.Overloaded, Msg: origin + " is busy", Err: err, RetryAfter: time.Second,
	}
}
