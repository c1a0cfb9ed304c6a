package metadata

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream"
)

// How long the provider is not asked after it answered 429.
const (
	firstPause = time.Second     // if it did not say how long
	pauseRatio = 1.5             // from one 429 to the next
	pauseSteps = 4               // of that ratio at most: 5 s and a bit
	maxPause   = 5 * time.Minute // whatever it says
)

// A health is what is known of the provider: whether it may be asked, what the last
// request met, and by which contracts it is tested.
type health struct {
	breaker *gobreaker.CircuitBreaker[struct{}]
	outage  *upstream.Outage
	limited *upstream.Outage // while the provider wants fewer requests

	mu        sync.Mutex
	until     time.Time // it is not asked until then
	pauses    int       // since the last success
	failure   error     // how the last request ended
	last      time.Time // when it last answered
	described [2]string // the last contracts that it described, the newest first; one may be what is tested
}

// newHealth makes a breaker that opens after a row of failed batches. A batch that was
// cancelled, limited or refused says nothing about the provider's health.
func newHealth(provider string, o Options) *health {
	outage := upstream.NewOutage(o.Logger, "metadata provider "+provider)
	return &health{
		outage:  outage,
		limited: upstream.NewOutage(o.Logger, "requests to metadata provider "+provider),
		breaker: upstream.NewBreaker[struct{}](upstream.BreakerOptions{
			Outage:   outage,
			Failures: o.Failures,
			Cooldown: o.Cooldown,
			Excluded: func(err error) bool {
				return errors.Is(err, context.Canceled) || upstream.KindOf(err) == upstream.Overloaded || errors.Is(err, errRefused)
			},
		}),
	}
}

// asks says whether the provider may be asked now.
func (h *health) asks() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !time.Now().Before(h.until) && h.breaker.State() != gobreaker.StateOpen
}

// note draws the conclusions from how asking ended. A provider that wants fewer requests is left
// alone as long as it says, else longer each time; requests under way together count once.
func (h *health) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure = err
	h.outage.Note(err)
	if err == nil {
		h.pauses = 0
		h.limited.End()
	}
	silent, ok := errors.AsType[*upstream.Error](err)
	if !ok || silent.Kind != upstream.Overloaded {
		return
	}
	h.limited.Begin(err)
	now, pause := time.Now(), min(silent.RetryAfter, maxPause)
	if pause == 0 && now.Before(h.until) {
		return
	}
	if pause == 0 {
		pause = time.Duration(float64(firstPause) * math.Pow(pauseRatio, float64(min(h.pauses, pauseSteps))))
		h.pauses++
	}
	if until := now.Add(pause); until.After(h.until) {
		h.until = until
	}
}

// State is that of the circuit breaker, half-open or open. While that is closed, it is what the
// last request met: rate_limited, unauthorized or failing, and closed if nothing; without a
// provider, off. The error, nil if the provider is well, says more, and no credential.
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

// answered notes an answer for an address, or for none, and whether it was a description.
func (h *health) answered(address string, described bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = time.Now()
	if described && address != h.described[0] {
		h.described = [2]string{address, h.described[0]}
	}
}

func (h *health) answeredSince(t time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.last.Before(t)
}

// noContract is asked for where no contract was described yet.
const noContract = "0x000000000000000000000000000000000000dead"

// control is a contract to test whether the provider is well, none of the flights'; "" for none.
func (h *health) control(but []*flight) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, address := range append(h.described[:], noContract) {
		if address != "" && !slices.ContainsFunc(but, func(f *flight) bool { return f.address == address }) {
			return address
		}
	}
	return ""
}

// forget has another control taken next.
func (h *health) forget(address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.described {
		if h.described[i] == address {
			h.described[i] = ""
		}
	}
}
