package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// ask has one endpoint answer and, where it is slow and hedging is on, a
// second one as well. Background requests are in no hurry.
func (f *fetch) ask(ctx context.Context, e *endpoint) result {
	if f.pool.hedge == 0 || f.request.Background || f.request.Ahead || f.request.Post != nil || len(f.pool.endpoints) == 1 {
		return f.queue(ctx, e)
	}
	return f.race(ctx, e)
}

// race asks a second endpoint when the first has not answered in time, and
// takes the first answer. Nothing of it outlives the call.
func (f *fetch) race(ctx context.Context, first *endpoint) result {
	var runners sync.WaitGroup
	defer runners.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, 2)
	start := func(e *endpoint) { runners.Go(func() { results <- f.queue(ctx, e) }) }

	start(first)
	select {
	case r := <-results:
		return r
	case <-time.After(f.pool.hedge):
	}
	second, _ := f.choose(first)
	if second == nil {
		return <-results
	}
	start(second)
	if r := <-results; r.err == nil {
		return r
	}
	return <-results
}

// queue waits for a turn at the endpoint and asks it. The tip is looked up
// after the wait: it has moved on since.
func (f *fetch) queue(ctx context.Context, e *endpoint) result {
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
