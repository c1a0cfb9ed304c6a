package metadata

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/upstream"
)

// A part is requested at once: a batch, or a part of a divided batch. One contract may make the provider refuse, fail or hang.
// So if a batch fails while the provider works, it is divided into halves until the contracts that cause the failure are found.
// The halves wait in the queue, so that other pages have their turn between them.
type part struct {
	flights   []*flight
	omitted   bool          // a response omitted all of them
	divisions *atomic.Int64 // of the batch so far
}

// storeTimeout limits the Load or Save of a batch. Stores have their own, shorter timeouts.
const storeTimeout = time.Second

// work looks up one part after the other until the context is cancelled and
// the queue is empty.
func (s *Service) work(ctx context.Context) {
	for {
		if p := s.queue.next(s.o.Batch); len(p.flights) > 0 {
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

// lookUp ends the flights of a part, or queues the parts into which it is divided. If the provider must not receive requests,
// the flights end without a result. Results are saved before the flights are removed, so that every page finds one of them.
func (s *Service) lookUp(ctx context.Context, p part) {
	all := p.flights
	var into []part
	if ctx.Err() == nil && s.health.mayRequest() {
		s.readStore(ctx, all)
		if p.flights = unknown(all); len(p.flights) > 0 {
			into = s.fetchPart(ctx, p)
		}
	}
	s.queue.release(all, into)
}

// readStore ends the flights for which the Store has a fresh record by now. Since the page's Load, another page's flight or
// another replica may have saved one.
func (s *Service) readStore(ctx context.Context, flights []*flight) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	records := s.o.Store.Load(ctx, addressesOf(flights))
	now := time.Now()
	for _, f := range flights {
		if f.before = records[f.address]; freshnessOf(f.address, f.before, now) == fresh {
			f.end(f.before)
		}
	}
}

func addressesOf(flights []*flight) []string {
	addresses := make([]string, len(flights))
	for i, f := range flights {
		addresses[i] = f.address
	}
	return addresses
}

// fetchPart requests a part if the breaker allows it, and saves the results. It returns the parts to request next.
func (s *Service) fetchPart(ctx context.Context, p part) (into []part) {
	ctx, span := upstream.StartSpan(trace.ContextWithSpan(ctx, spanOf(p.flights)), "metadata.batch")
	_, err := s.health.breaker.Execute(func() (_ struct{}, err error) {
		if into, err = s.requestPart(ctx, p); !isOwn(err) {
			s.health.recordOutcome(err)
			if err != nil {
				s.o.Logger.Debug("metadata lookup failed", "provider", s.provider.name, "error", err)
			}
		}
		return struct{}{}, err
	})
	span.SetAttributes(attribute.Int("tipcache.contracts", len(p.flights)),
		attribute.Int("tipcache.learned", len(p.flights)-len(unknown(p.flights))))
	upstream.EndSpan(span, err)

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	s.save(ctx, p.flights)
	return into
}

// spanOf returns the span of one of the flights' pages, of a sampled trace if there is one.
func spanOf(flights []*flight) (span trace.Span) {
	for _, f := range flights {
		if span = f.span; span.SpanContext().IsSampled() {
			break
		}
	}
	return span
}

// requestPart requests a part and returns the parts to request next. The error is the provider's, not a contract's.
func (s *Service) requestPart(ctx context.Context, p part) (into []part, err error) {
	began := time.Now()
	err = s.request(ctx, addressesOf(p.flights), func(i int, c *Contract) {
		p.flights[i].end(s.record(c, p.flights[i]))
	})
	missing := unknown(p.flights)
	switch {
	case len(missing) == 0:
		return nil, nil
	case err == nil:
		return s.retryOmitted(p, missing), nil
	case ctx.Err() != nil || upstream.KindOf(err) == upstream.Overloaded:
		return nil, err
	}
	return s.divide(ctx, p, missing, began, err)
}

// request sends one request to the provider and records its duration and outcome.
func (s *Service) request(ctx context.Context, addresses []string, learn func(i int, c *Contract)) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	start := time.Now()
	err := providers[s.provider.name](ctx, s.provider, addresses, func(i int, c *Contract) {
		s.health.last.Store(time.Now().UnixNano())
		learn(i, c)
	})
	if err == nil {
		s.health.last.Store(time.Now().UnixNano())
	}
	s.metrics.requests.WithLabelValues(outcome(err)).Inc()
	s.metrics.seconds.Observe(time.Since(start).Seconds())
	return err
}
