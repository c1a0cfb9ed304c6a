package metadata

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/upstream"
)

// A part is asked for in one request: a batch, or what a batch was divided into.
type part struct {
	flights []*flight
	left    bool // an answer left all of them out
	of      *division
}

// A division is what a batch has come to. One contract may make the provider
// refuse, fail or hang, so a batch that failed while the provider is well is asked
// for in halves, until the contracts to blame are alone. The halves wait in the
// queue, so that other pages have their turn between them.
type division struct {
	mu      sync.Mutex
	open    int      // parts that wait or are asked for
	asked   int      // requests so far
	blamed  []string // contracts that the provider gives nothing for
	because error    // of the last of them
}

// end says that a request ended, after which so many parts wait. It returns the
// contracts to blame once all have been found.
func (d *division) end(parts int) (blamed []string, because error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	d.open += parts - 1
	if d.open > 0 {
		return nil, nil
	}
	return d.blamed, d.because
}

// storeTimeout is what reading or keeping a batch may take, a last deadline:
// stores have their own.
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

// lookUp ends the flights of a part, at once if the provider is not to be asked,
// and queues what it is divided into. What was learned is saved before the flights
// are forgotten, so that no page finds neither.
func (s *Service) lookUp(ctx context.Context, p part) {
	all := p.flights
	var into []part
	if ctx.Err() == nil && s.health.asks() {
		s.readStore(ctx, all)
		if p.flights = unknown(all); len(p.flights) > 0 {
			into = s.askProvider(ctx, p)
		}
	}
	blamed, because := p.of.end(len(into)) // before another worker ends one of the parts
	s.queue.release(all, into)
	if len(blamed) > 0 {
		s.o.Logger.Info("provider refuses these contracts, listing them without metadata", "provider", s.provider.name,
			"contracts", len(blamed), "first", blamed[0], "error", because)
	}
}

// readStore ends the flights that the Store has a fresh record for by now.
// Between a page's Load and its flight, the flight of another page may have ended,
// and another replica may have shared its own.
func (s *Service) readStore(ctx context.Context, flights []*flight) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	records := s.load(ctx, addressesOf(flights))
	now := time.Now()
	for _, f := range flights {
		if f.before = records[f.address]; s.o.freshness(f.address, f.before, now) == fresh {
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

// askProvider has the provider end the flights of a part, if the breaker lets it,
// and saves what was learned. It returns the parts that are to be asked for next.
func (s *Service) askProvider(ctx context.Context, p part) (into []part) {
	ctx, span := upstream.StartSpan(trace.ContextWithSpan(ctx, spanOf(p.flights)), "metadata.batch")
	_, err := s.health.breaker.Execute(func() (_ struct{}, err error) {
		if into, err = s.ask(ctx, p); !errors.Is(err, context.Canceled) {
			s.health.note(err)
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

// spanOf is the span of a page that waits for one of the flights: several pages may share
// a batch. It is of a sampled trace if there is one.
func spanOf(flights []*flight) (of trace.Span) {
	for _, f := range flights {
		if of = f.span; of.SpanContext().IsSampled() {
			break
		}
	}
	return of
}

// ask asks for a part, and returns the parts in which the rest is to be asked for.
// The error is the provider's, not a contract's.
func (s *Service) ask(ctx context.Context, p part) (into []part, err error) {
	began := time.Now()
	err = s.request(ctx, addressesOf(p.flights), func(i int, c *contract) {
		p.flights[i].end(s.record(c, p.flights[i]))
	})
	missing := unknown(p.flights)
	switch {
	case len(missing) == 0:
		return nil, nil
	case err == nil:
		return s.leftOut(p, missing), nil
	case ctx.Err() != nil || upstream.KindOf(err) == upstream.Overloaded:
		return nil, err
	}
	return s.divide(ctx, p, missing, began, err)
}

// request asks the provider once.
func (s *Service) request(ctx context.Context, addresses []string, learn func(i int, c *contract)) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	start := time.Now()
	err := providers[s.provider.name](ctx, s.provider, addresses, func(i int, c *contract) {
		s.health.answered(addresses[i], c != nil)
		learn(i, c)
	})
	if err == nil {
		s.health.answered("", false)
	}
	s.metrics.requests.WithLabelValues(outcome(err)).Inc()
	s.metrics.seconds.Observe(time.Since(start).Seconds())
	return err
}
