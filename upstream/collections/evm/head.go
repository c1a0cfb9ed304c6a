package evm

import (
	"context"
	"time"
)

// AtHead makes calls of a server whose head is not below a block. Its head comes
// in the same batch; one that is below is a Failure for Lagging. Of an endpoint
// that takes few calls in a batch they are made in several, each with the head.
// How many it takes is found out, for which each of the calls has to be such that
// nobody refuses it for what it asks. With an error the answers are those that came
// before it.
//
// Of an endpoint that takes a single call (see Endpoint.Single) the head may come
// from another server than the answers: calls have to be such that a server that
// lags refuses them.
func (e *Endpoint) AtHead(ctx context.Context, block int64, calls ...Call) (head int64, answers []Answer, err error) {
	return e.atHead(ctx, e.timeout, block, calls)
}

// Poll is AtHead for calls that are answered at once, if at all: an endpoint that
// hangs does not hold up what waits for a new block.
func (e *Endpoint) Poll(ctx context.Context, block int64, calls ...Call) (head int64, answers []Answer, err error) {
	return e.atHead(ctx, min(e.timeout, pollTimeout), block, calls)
}

// pollTimeout bounds each request of Poll, unless Options.Timeout is less.
const pollTimeout = 3 * time.Second

func (e *Endpoint) atHead(ctx context.Context, timeout time.Duration, block int64, calls []Call) (head int64, answers []Answer, err error) {
	for {
		var got []Answer
		some := calls[len(answers):]
		some = some[:min(len(some), e.several())]
		switch {
		case e.Single() && len(answers) > 0:
			got, err = e.each(ctx, timeout, some...)
		case e.Single() && len(some) > 0:
			head, _, err = e.headed(ctx, timeout, block, nil)
			if err == nil {
				got, err = e.each(ctx, timeout, some...)
			}
		default:
			head, got, err = e.headed(ctx, timeout, block, some)
		}
		if answers = append(answers, got...); len(got) > 0 {
			e.Well() // what was answered stays
		}
		less := e.called(len(some)+1, err)
		if err != nil && !less || err == nil && len(answers) == len(calls) {
			return head, answers, err
		}
	}
}

// AtHeadOnce is AtHead in as many requests as there have to be, for calls that may
// be refused for what they ask: nothing is concluded from that.
func (e *Endpoint) AtHeadOnce(ctx context.Context, block int64, calls ...Call) (answers []Answer, err error) {
	for len(calls) > 0 {
		some := calls[:min(e.several(), len(calls))]
		calls = calls[len(some):]
		_, got, err := e.headed(ctx, e.timeout, block, some)
		if err != nil {
			return nil, err
		}
		answers = append(answers, got...)
	}
	return answers, nil
}

// headed makes calls with that for the head.
func (e *Endpoint) headed(ctx context.Context, timeout time.Duration, block int64, calls []Call) (head int64, answers []Answer, err error) {
	all, err := e.each(ctx, timeout, append([]Call{{Method: "eth_blockNumber"}}, calls...)...)
	if len(all) == 0 {
		return 0, nil, err
	}
	head, lag := covers(all[0], block)
	if lag != nil {
		return 0, nil, lag
	}
	return head, all[1:], err
}

// Each makes one call after the other.
func (e *Endpoint) Each(ctx context.Context, calls ...Call) (answers []Answer, err error) {
	for _, call := range calls {
		got, err := e.each(ctx, e.timeout, call)
		if err != nil {
			return nil, err
		}
		answers = append(answers, got...)
	}
	return answers, nil
}

// covers reads a head, and checks that it is not below a block.
func covers(a Answer, block int64) (head int64, err error) {
	if a.Err != nil {
		return 0, a.Err
	}
	if head, err = Quantity(a.Result.Str); err != nil {
		return 0, Refusal("its head: %w", err)
	}
	if head < block {
		return head, Lag("its head is %d, wanted is %d", head, block)
	}
	return head, nil
}
