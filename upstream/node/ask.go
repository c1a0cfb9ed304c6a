package node

import (
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// ask waits for a turn at the endpoint and asks it. The tip is looked up
// after the wait: it has moved on since.
func (f *fetch) ask(ctx context.Context, e *endpoint) result {
	r := f.request
	if err := e.queue.Acquire(ctx, r.queued()); err != nil {
		return result{endpoint: e, err: e.busy(err)}
	}
	defer e.queue.Release(r.queued())
	now, height := f.pool.Tip(), f.height()
	v := e.look()
	if height <= now.Height && v.reach(height, now.Interval) == behind {
		return result{endpoint: e, height: height, err: upstream.ErrBehind}
	}
	answer, err := e.ask(ctx, r, height)
	if err == nil {
		f.pool.chain.Learn(e.blocks, now.Epoch, answer.reading())
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = upstream.Silence(origin, err)
	}
	return result{endpoint: e, height: height, answer: answer, err: err}
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
