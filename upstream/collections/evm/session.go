package evm

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidwall/gjson"
)

// A Session is a piece of work at one endpoint. It keeps what was answered for when the work is
// tried again there: each answer is progress.
type Session struct {
	*Endpoint
	kept    map[string]Answer // by call
	head    int64             // the newest that was told; -1: none was
	lacking bool              // not all that was asked for in this try was answered
	alone   bool              // an answer came without the head of its server
}

func newSession(e *Endpoint) *Session {
	return &Session{Endpoint: e, kept: map[string]Answer{}, head: -1}
}

// try does the work. Where all was answered, and yet is of no use, what is in doubt is not kept:
// not all answers of an endpoint before two servers need come from the same one.
func (s *Session) try(work func(*Session) error) error {
	s.lacking = false
	err := work(s)
	f, failed := errors.AsType[*Failure](err)
	if failed && len(f.doubted) > 0 {
		for _, c := range f.doubted {
			delete(s.kept, c.key())
		}
	} else if err != nil && (!s.lacking || failed && f.Reason == Inconsistent) {
		*s = *newSession(s.Endpoint)
	}
	return err
}

// AtHead makes calls of a server whose head is not below a block. Its head comes in the same batch,
// or in each of several where the endpoint takes few calls; one that is below is a Failure for
// Lagging. How many it takes is found out, so no server may refuse a call for what it asks.
//
// Of an endpoint that takes a single call (see Endpoint.Single) the head may come from another
// server: a server that lags has to refuse the calls.
func (s *Session) AtHead(ctx context.Context, block int64, calls ...Call) (head int64, answers []Answer, err error) {
	return s.atHead(ctx, s.timeout, block, calls, s.called)
}

// Poll is AtHead for calls that are answered at once, if at all: an endpoint that
// hangs does not hold up what waits for a new block.
func (s *Session) Poll(ctx context.Context, block int64, calls ...Call) (head int64, answers []Answer, err error) {
	return s.atHead(ctx, min(s.timeout, pollTimeout), block, calls, s.called)
}

// pollTimeout bounds each request of Poll, unless Options.Timeout is less.
const pollTimeout = 3 * time.Second

// AtHeadOnce is AtHead in as many requests as there have to be, for calls that may
// be refused for what they ask: nothing is concluded from that.
func (s *Session) AtHeadOnce(ctx context.Context, block int64, calls ...Call) (head int64, answers []Answer, err error) {
	return s.atHead(ctx, s.timeout, block, calls, func(int, error) bool { return false })
}

// PollOnce is AtHeadOnce for calls that are answered as soon as those of Poll.
func (s *Session) PollOnce(ctx context.Context, block int64, calls ...Call) (head int64, answers []Answer, err error) {
	return s.atHead(ctx, min(s.timeout, pollTimeout), block, calls, func(int, error) bool { return false })
}

// atHead asks for what is not kept. conclude reports whether fewer calls are to be tried after an
// error.
func (s *Session) atHead(ctx context.Context, timeout time.Duration, block int64, calls []Call, conclude func(calls int, err error) bool) (head int64, answers []Answer, err error) {
	answers = make([]Answer, len(calls))
	keys, left := make([]string, len(calls)), make([]int, 0, len(calls))
	for i, c := range calls {
		keys[i] = c.key()
		if a, kept := s.kept[keys[i]]; kept {
			answers[i] = a
		} else {
			left = append(left, i)
		}
	}
	for len(left) > 0 || s.head < block {
		var some []Call
		for _, i := range left[:min(len(left), s.several())] {
			some = append(some, calls[i])
		}
		got, err := s.ask(ctx, timeout, block, some)
		for i, a := range got {
			answers[left[i]] = a
			s.keep(keys[left[i]], a)
		}
		left, s.lacking = left[len(got):], s.lacking || err != nil
		if less := conclude(len(some)+1, err); err != nil && !less {
			return s.head, answers, err
		}
	}
	return s.head, answers, nil
}

// ask makes calls with that for the head. Of an endpoint that takes one call at once
// the head is asked for first, which then is no answer to a call.
func (s *Session) ask(ctx context.Context, timeout time.Duration, block int64, calls []Call) ([]Answer, error) {
	if s.Single() {
		if s.head >= block && len(calls) > 0 {
			s.alone = true
			return s.each(ctx, timeout, calls...)
		}
		calls = nil
	}
	all, err := s.each(ctx, timeout, append([]Call{{Method: "eth_blockNumber"}}, calls...)...)
	if len(all) == 0 {
		return nil, err
	}
	head, lag := covers(all[0], block)
	if lag != nil {
		return nil, lag
	}
	s.head = head
	return all[1:], err
}

// Alone reports whether the head may have come from another server than the answers:
// that the endpoint takes a single call may have been found out meanwhile.
func (s *Session) Alone() bool { return s.alone }

// keep keeps an answer. null says that there is nothing yet, or nothing at all.
func (s *Session) keep(key string, a Answer) {
	if a.Err == nil && a.Result.Type == gjson.Null || a.Err != nil && !a.Err.Reverted() {
		s.lacking = true
		return
	}
	s.kept[key] = a
	s.Well()
}

func (c Call) key() string {
	text, _ := json.Marshal(c) // as it is in the request
	return string(text)
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
