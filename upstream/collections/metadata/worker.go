package metadata

import (
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/upstream"
)

// storeTimeout is what reading or keeping a batch may take, a last deadline:
// stores have their own.
const storeTimeout = time.Second

// work looks up one part after the other until the context is cancelled and
// the queue is empty.
func (s *Service) work(ctx context.Context) {
	for {
		if p := s.queue.next(s.o.Batch); len(p.addresses) > 0 {
			s.lookUp(ctx, p)
			continue
		}
		select {
		case <-s.queue.wake:
		case <-ctx.Done():
			return
		}
	}
}

// lookUp ends the flights of a part, at once if the provider is not to be asked,
// and queues what it is divided into. What was learned is saved before the flights
// are forgotten, so that no page finds neither.
func (s *Service) lookUp(ctx context.Context, p part) {
	batch := p.addresses
	var parts []part
	if ctx.Err() == nil && !s.backoff.active(time.Now()) && s.breaker.State() != gobreaker.StateOpen {
		var records map[string]Record
		if p.addresses, records = s.readStore(ctx, batch); len(p.addresses) > 0 {
			parts = s.askProvider(ctx, p, records)
		}
	}
	blamed, because := p.of.end(len(parts)) // before another worker ends one of the parts
	s.queue.release(batch, parts)
	if len(blamed) > 0 {
		s.o.Logger.Info("contracts without metadata: the provider refuses them", "provider", s.provider.name,
			"contracts", len(blamed), "first", blamed[0], "error", because)
	}
}

// readStore ends the flights that the Store has a fresh record for by now,
// and returns the others with all records. Between a page's Load and its flight,
// the flight of another page may have ended, and another replica may have shared
// its own.
func (s *Service) readStore(ctx context.Context, batch []string) (unknown []string, records map[string]Record) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	records = s.load(ctx, batch)
	now := time.Now()
	for _, a := range batch {
		if r := records[a]; s.o.freshness(a, r, now) == fresh {
			s.queue.finish(a, r)
		} else {
			unknown = append(unknown, a)
		}
	}
	return unknown, records
}

// askProvider has the provider end the flights of a part, if the breaker lets it,
// and saves what was learned. It returns the parts that are to be asked for next.
func (s *Service) askProvider(ctx context.Context, p part, before map[string]Record) (parts []part) {
	// Several pages may share a batch. Its span goes into the first trace among
	// theirs that is sampled.
	ctx, span := upstream.StartSpan(trace.ContextWithSpan(ctx, s.queue.span(p.addresses)), "metadata.batch")
	_, err := s.breaker.Execute(func() (_ struct{}, err error) {
		parts, err = s.ask(ctx, p, before)
		s.report(err)
		return struct{}{}, err
	})
	learned := s.queue.learned(p.addresses)
	span.SetAttributes(attribute.Int("tipcache.contracts", len(p.addresses)), attribute.Int("tipcache.learned", len(learned)))
	upstream.EndSpan(span, err)

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	s.save(ctx, learned)
	return parts
}

// report draws the conclusions from how asking ended, for the backoff, the state
// and the log.
func (s *Service) report(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	s.failure.Store(&err)
	switch {
	case err == nil:
		s.backoff.end()
		s.limited.End()
		return
	case upstream.KindOf(err) == upstream.Overloaded:
		s.backoff.begin(time.Now(), err)
		s.limited.Begin(err)
	}
	s.o.Logger.Debug("metadata lookup failed", "provider", s.provider.name, "error", err)
}

// newBreaker opens after a row of failed batches. A batch that was cancelled,
// limited or refused says nothing about the provider's health.
func (s *Service) newBreaker() *gobreaker.CircuitBreaker[struct{}] {
	return upstream.NewBreaker[struct{}](upstream.BreakerOptions{
		Outage:   upstream.NewOutage(s.o.Logger, "metadata provider "+s.provider.name),
		Failures: s.o.Failures,
		Cooldown: s.o.Cooldown,
		Excluded: func(err error) bool {
			return errors.Is(err, context.Canceled) || upstream.KindOf(err) == upstream.Overloaded || errors.Is(err, errRefused)
		},
	})
}
