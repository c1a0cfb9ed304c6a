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

// work looks up one batch after the other until the context is cancelled and
// the queue is empty.
func (s *Service) work(ctx context.Context) {
	for {
		if batch := s.queue.next(s.o.Batch); len(batch) > 0 {
			s.lookUp(ctx, batch)
			continue
		}
		select {
		case <-s.queue.wake:
		case <-ctx.Done():
			return
		}
	}
}

// lookUp ends the flights of a batch, at once if the provider is not to be
// asked. What was learned is saved before the flights are forgotten, so that no
// page finds neither.
func (s *Service) lookUp(ctx context.Context, batch []string) {
	defer s.queue.remove(batch)
	if ctx.Err() != nil || s.backoff.active(time.Now()) || s.breaker.State() == gobreaker.StateOpen {
		return
	}
	if unknown, records := s.readStore(ctx, batch); len(unknown) > 0 {
		s.askProvider(ctx, unknown, records)
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

// askProvider has the provider end the flights of the addresses, if the breaker
// lets it, and saves what was learned. An address that the provider refuses keeps
// the description it had, and is asked for again when that is no longer fresh.
func (s *Service) askProvider(ctx context.Context, addresses []string, before map[string]Record) {
	// Several pages may share a batch. Its span goes into the first trace among
	// theirs that is sampled.
	ctx, span := upstream.StartSpan(trace.ContextWithSpan(ctx, s.queue.span(addresses)), "metadata.batch")
	learned := map[string]Record{}
	_, err := s.breaker.Execute(func() (struct{}, error) {
		d := divider{s: s}
		err := d.ask(ctx, addresses)
		for _, a := range d.refused {
			s.queue.finish(a, Record{Body: before[a].Body, ReadAt: time.Now()})
		}
		learned = s.queue.learned(addresses)
		s.report(&d, len(learned), err)
		if len(learned) > 0 {
			return struct{}{}, nil // a provider that told anything is a healthy one
		}
		return struct{}{}, err
	})
	span.SetAttributes(attribute.Int("tipcache.contracts", len(addresses)), attribute.Int("tipcache.learned", len(learned)))
	upstream.EndSpan(span, err)

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	s.save(ctx, learned)
}

// report draws the conclusions from how asking ended, for the backoff and for
// the log.
func (s *Service) report(d *divider, learned int, err error) {
	switch {
	case err == nil:
		s.backoff.end()
		s.limited.End()
	case upstream.KindOf(err) == upstream.Overloaded:
		s.backoff.begin(time.Now(), err)
		s.limited.Begin(err)
	}
	if len(d.refused) > 0 {
		s.o.Logger.Info("contracts without metadata: the provider refuses them", "provider", s.provider.name,
			"contracts", len(d.refused), "first", d.refused[0], "error", d.cause)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.o.Logger.Debug("metadata lookup failed", "provider", s.provider.name, "learned", learned, "error", err)
	}
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
