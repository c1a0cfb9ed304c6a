package metadata

import (
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// storeTimeout is what keeping a batch may take, a last deadline: stores have
// their own.
const storeTimeout = time.Second

// work looks up one batch after the other until the context is cancelled and
// the queue is empty.
func (s *Service) work(ctx context.Context) {
	for {
		if batch := s.queue.next(s.o.Batch); len(batch) > 0 {
			s.look(ctx, batch)
			continue
		}
		select {
		case <-s.queue.wake:
		case <-ctx.Done():
			return
		}
	}
}

// look ends the flights of a batch, at once if the provider is to be left alone.
// What was learned is saved before the flights are forgotten, so that no page
// finds neither.
func (s *Service) look(ctx context.Context, batch []string) {
	defer s.queue.remove(batch)
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	if ctx.Err() != nil || s.pause.active(time.Now()) || s.breaker.State() == gobreaker.StateOpen {
		return
	}
	if unknown := s.recall(ctx, batch); len(unknown) > 0 {
		s.ask(ctx, unknown)
	}
}

// recall lands the flights that the Store has a fresh record for by now, and
// returns the others. Between a page's Load and its flight, the flight of
// another page may have ended, and another replica may have shared its own.
func (s *Service) recall(ctx context.Context, batch []string) (unknown []string) {
	records := s.load(ctx, batch)
	now := time.Now()
	for _, a := range batch {
		if r := records[a]; s.o.age(a, r, now) == fresh {
			s.queue.land(a, r)
		} else {
			unknown = append(unknown, a)
		}
	}
	return unknown
}

// ask has the provider land the flights of the addresses, if the breaker lets
// it, and saves what was learned.
func (s *Service) ask(ctx context.Context, addresses []string) {
	done, err := s.breaker.Allow()
	if err != nil {
		return
	}
	ctx, span := s.startSpan(ctx, addresses)
	start := time.Now()
	err = s.provider.fetch(ctx, addresses, func(address string, c *contract) {
		s.queue.land(address, c.record(s.o.Chain))
	})
	learned := s.queue.learned(addresses)
	s.settle(done, err, len(learned))
	s.metrics.observe(err, time.Since(start))
	endSpan(span, len(addresses), len(learned), err)

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	s.save(ctx, learned)
}

// settle draws the conclusions from how asking ended: for the pause, for the
// breaker, to which a provider that told us anything is a healthy one, and for
// the log.
func (s *Service) settle(done func(error), err error, learned int) {
	switch {
	case err == nil:
		s.pause.end()
	case isOverloaded(err):
		s.pause.begin(time.Now(), err)
	}
	if learned > 0 {
		done(nil)
	} else {
		done(err)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.o.Logger.Warn("metadata lookup failed", "provider", s.provider.String(), "learned", learned, "error", err)
	}
}

// newBreaker opens after a row of failed batches. Being cancelled and being
// told to slow down say nothing about the provider's health.
func (s *Service) newBreaker() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        s.provider.String(),
		Timeout:     s.o.Cooldown,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= s.o.Failures },
		IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) || isOverloaded(err) },
		OnStateChange: func(provider string, from, to gobreaker.State) {
			s.o.Logger.Warn("metadata breaker", "provider", provider, "from", from.String(), "to", to.String())
		},
	})
}
