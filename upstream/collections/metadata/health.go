package metadata

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// How long the provider receives no requests after a 429.
const (
	firstPause   = time.Second     // without Retry-After; half as long again after each further 429
	longestPause = 5 * time.Second // without Retry-After
	maxPause     = 5 * time.Minute // maximum for Retry-After
)

// cooldown is how long the breaker stays open.
const cooldown = 30 * time.Second

// A health is the state of the provider: its breaker and pauses, and the result of the last request.
type health struct {
	breaker *gobreaker.CircuitBreaker[bool]
	outage  *upstream.Outage
	limited *upstream.Outage // while the provider limits the rate

	mu      sync.Mutex
	until   time.Time     // end of the pause
	pause   time.Duration // the last one without Retry-After since the last success
	failure error         // error of the last request
}

// isOwn reports whether an error of a request is this process's own.
func isOwn(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, account.ErrFull)
}

// newHealth returns a health whose breaker opens after consecutive failed batches. Rate-limited and refused batches and those
// with an error of this process do not count.
func newHealth(provider string, o Options) *health {
	outage := upstream.NewOutage(o.Logger, "metadata provider "+provider)
	return &health{
		outage:  outage,
		limited: upstream.NewOutage(o.Logger, "requests to metadata provider "+provider),
		breaker: upstream.NewBreaker[bool](upstream.BreakerOptions{
			Outage:   outage,
			Failures: o.Failures,
			Cooldown: cooldown,
			Excluded: func(err error) bool {
				return isOwn(err) || upstream.KindOf(err) == upstream.Overloaded || errors.Is(err, errRefused)
			},
		}),
	}
}

func (h *health) mayRequest() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !time.Now().Before(h.until) && h.breaker.State() != gobreaker.StateOpen
}

// recordOutcome records the outcome of a request. After a 429 it pauses for Retry-After, or for a growing time without it.
// Concurrent requests count once.
func (h *health) recordOutcome(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure = err
	if err == nil {
		h.pause = 0
		h.limited.End()
	}
	limit, ok := errors.AsType[*upstream.Error](err)
	if !ok || limit.Kind != upstream.Overloaded {
		h.outage.Record(err)
		return
	}
	h.limited.Begin(err)
	now, pause := time.Now(), min(limit.RetryAfter, maxPause)
	if pause == 0 {
		if now.Before(h.until) {
			return
		}
		h.pause = min(max(h.pause*3/2, firstPause), longestPause)
		pause = h.pause
	}
	if until := now.Add(pause); until.After(h.until) {
		h.until = until
	}
}

// State returns off without a provider, and half-open or open for the state of the circuit breaker. If it is closed, State
// returns rate_limited, unauthorized or failing after a failed request, and closed otherwise. The error is the last request's
// and contains no credentials.
func (s *Service) State() (state string, err error) {
	if s == nil {
		return "off", nil
	}
	h := s.health
	h.mu.Lock()
	err = h.failure
	h.mu.Unlock()
	switch state = h.breaker.State().String(); {
	case err == nil || state != gobreaker.StateClosed.String():
		return state, err
	case upstream.KindOf(err) == upstream.Overloaded:
		return "rate_limited", err
	case errors.Is(err, errUnauthorized):
		return "unauthorized", err
	}
	return "failing", err
}

// Outages returns the outage of the provider, and nothing for a nil Service.
func (s *Service) Outages() upstream.Outages {
	if s == nil {
		return nil
	}
	return upstream.Outages{s.health.outage, s.health.limited}
}
