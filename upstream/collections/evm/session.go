package evm

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/account"
)

// A Session is the state of a work function at one endpoint. It keeps answers for retries of the work.
type Session struct {
	Endpoint *Endpoint
	kept     map[string]Answer // by call
	held     *account.Hold     // memory of the kept answers
	head     int64             // newest head; -1 if unknown
	lacking  bool              // some calls of this try were not answered

	// HeadMayDiffer is true if the head may come from another server than the answers, because the endpoint turned out to
	// accept a single call.
	HeadMayDiffer bool
}

func newSession(e *Endpoint) *Session {
	return &Session{Endpoint: e, kept: map[string]Answer{}, held: e.memory.Open("", true), head: -1}
}

// try calls work. If all calls were answered but work failed, it drops the doubted answers, because they may come from different
// servers behind a load balancer.
func (s *Session) try(work func(*Session) error) error {
	s.lacking = false
	err := work(s)
	f, failed := errors.AsType[*Failure](err)
	if failed && len(f.doubted) > 0 {
		for _, c := range f.doubted {
			key := c.key()
			s.held.Release(int64(len(s.kept[key].Result.Raw)))
			delete(s.kept, key)
		}
	} else if err != nil && (!s.lacking || failed && f.Reason == Inconsistent) {
		s.held.Close()
		*s = *newSession(s.Endpoint)
	}
	return err
}

// AtHead makes calls at a server whose head is at least block. It reads the head in every batch, and fails with Lagging if it is
// lower. It learns from refusals how many calls the endpoint accepts, so servers must not refuse the calls for other reasons.
//
// If the endpoint accepts a single call (see Endpoint.Single), the head may come from another server. Then a lagging server must
// refuse the calls.
func (s *Session) AtHead(ctx context.Context, block int64, calls ...Call) (head int64, answers []Answer, err error) {
	return s.atHead(ctx, s.Endpoint.timeout, block, calls, false)
}

// Poll is AtHead with a short timeout, so that a hanging endpoint does not delay new blocks.
func (s *Session) Poll(ctx context.Context, block int64, calls ...Call) (head int64, answers []Answer, err error) {
	return s.atHead(ctx, min(s.Endpoint.timeout, pollTimeout), block, calls, false)
}

// pollTimeout limits each request of Poll, unless Options.Timeout is shorter.
const pollTimeout = 3 * time.Second

// AtHeadOnce is AtHead for calls that may be refused because of their parameters. It learns nothing from refusals.
func (s *Session) AtHeadOnce(ctx context.Context, block int64, calls ...Call) (head int64, answers []Answer, err error) {
	return s.atHead(ctx, s.Endpoint.timeout, block, calls, true)
}

// PollOnce is AtHeadOnce with the timeout of Poll.
func (s *Session) PollOnce(ctx context.Context, block int64, calls ...Call) (head int64, answers []Answer, err error) {
	return s.atHead(ctx, min(s.Endpoint.timeout, pollTimeout), block, calls, true)
}

// atHead makes the calls without a kept answer. Unless once is set, it retries with fewer calls after some errors.
func (s *Session) atHead(ctx context.Context, timeout time.Duration, block int64, calls []Call, once bool) (head int64, answers []Answer, err error) {
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
		for _, i := range left[:min(len(left), max(int(s.Endpoint.snapshot().batch.size)-1, 1))] {
			some = append(some, calls[i])
		}
		got, err := s.send(ctx, timeout, block, some)
		for i, a := range got {
			a, full := s.keep(keys[left[i]], a)
			if full != nil {
				got, err = got[:i], full
				break
			}
			answers[left[i]] = a
		}
		left, s.lacking = left[len(got):], s.lacking || err != nil
		if less := !once && s.Endpoint.recordCalls(len(some)+1, err); err != nil && !less {
			return s.head, answers, err
		}
	}
	return s.head, answers, nil
}

// send makes calls together with the call for the head. If the endpoint accepts a single call, it reads the head first and returns
// no answers.
func (s *Session) send(ctx context.Context, timeout time.Duration, block int64, calls []Call) ([]Answer, error) {
	if s.Endpoint.Single() {
		if s.head >= block && len(calls) > 0 {
			s.HeadMayDiffer = true
			return s.Endpoint.call(ctx, timeout, calls...)
		}
		calls = nil
	}
	all, err := s.Endpoint.call(ctx, timeout, append([]Call{{Method: "eth_blockNumber"}}, calls...)...)
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

// keep keeps a copy of an answer without the rest of the response, and returns the copy. It does not keep null, nor an error other
// than a revert. If the memory for answers is in use, it fails with account.ErrFull.
func (s *Session) keep(key string, a Answer) (Answer, error) {
	if a.Err == nil && a.Result.Type == gjson.Null || a.Err != nil && !a.Err.Reverted() {
		s.lacking = true
		return a, nil
	}
	if err := s.held.Take(len(a.Result.Raw)); err != nil {
		return a, tooLong(err)
	}
	a.Result = gjson.Parse(strings.Clone(a.Result.Raw))
	s.kept[key] = a
	s.Endpoint.RecordSuccess()
	return a, nil
}

func (c Call) key() string {
	text, _ := json.Marshal(c) // the encoding in the request
	return string(text)
}

// covers decodes a head and checks that it is at least block.
func covers(a Answer, block int64) (head int64, err error) {
	if a.Err != nil {
		return 0, a.Err
	}
	if head, err = Quantity(a.Result.Str); err != nil {
		return 0, Refusal("its head: %w", err)
	}
	if head < block {
		return head, Lag("its head is %d, want %d", head, block)
	}
	return head, nil
}
