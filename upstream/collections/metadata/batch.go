package metadata

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

const (
	collectFor = 5 * time.Millisecond // how long a batch waits for more addresses after its first one

	// noContract is an address without a contract. Every provider that works responds to a request for it.
	noContract = "0x000000000000000000000000000000000000dead"
)

// A flight is the lookup of one address, from queueing until the result is saved. All pages with the address share it.
type flight struct {
	address string
	before  Record        // the Store's record
	span    trace.Span    // of the page that started it
	done    chan struct{} // closed when record is set or the lookup has failed
	record  *Record       // the result; nil if the lookup failed
}

// wait returns the result if the flight ends before the context, else nil. A nil flight was not started.
func (f *flight) wait(ctx context.Context) *Record {
	if f == nil {
		return nil
	}
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	select {
	case <-f.done: // also if the context has ended
		return f.record
	default:
		return nil
	}
}

func isUnknown(f *flight) bool { return f.record == nil }

// learn ends a flight with a contract, or nil if the provider has none. Then it keeps an earlier description, fresh for noRecord.
func (s *Service) learn(f *flight, c *Contract) {
	r := Record{ReadAt: time.Now()}
	switch {
	case c != nil:
		r.Body = s.describe(*c)
	case len(f.before.Body) > 0:
		r.Body = f.before.Body
		r.ReadAt = r.ReadAt.Add(-time.Duration(float64(freshFor-noRecord) * spread(f.address)))
	}
	f.record = &r
	close(f.done)
}

// join returns the current flight of an address, or starts one in a queue with the page's trace. It returns nil if there are as
// many flights as the queue's capacity, or the service is closed.
func (s *Service) join(ctx context.Context, address string, before Record, queue chan<- *flight) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flights[address]
	if f == nil && s.flights != nil && len(s.flights) < cap(queue) {
		f = &flight{address: address, before: before, span: trace.SpanFromContext(ctx), done: make(chan struct{})}
		s.flights[address] = f
		queue <- f
	}
	return f
}

// readBatches looks up one batch after the other until ctx ends.
func (s *Service) readBatches(ctx context.Context) {
	for batch := s.collect(ctx); batch != nil; batch = s.collect(ctx) {
		s.lookUp(ctx, batch)
	}
}

// readAlone looks up the contracts of failed batches one after the other until ctx ends.
func (s *Service) readAlone(ctx context.Context) {
	for {
		select {
		case f := <-s.alone:
			s.lookUp(ctx, []*flight{f})
		case <-ctx.Done():
			return
		}
	}
}

// collect returns the next batch, for one worker at a time. While all workers are busy, addresses wait in the queues and share
// the next batch. A select chooses among both queues at random, so that refreshes hardly delay pages. It returns nil if ctx ends.
func (s *Service) collect(ctx context.Context) (batch []*flight) {
	s.collecting <- struct{}{}
	defer func() { <-s.collecting }()
	var timeout <-chan time.Time
	for len(batch) < s.o.Batch {
		var f *flight
		select {
		case f = <-s.awaited:
		case f = <-s.refreshes:
		case <-timeout:
			return batch
		case <-ctx.Done():
			return nil
		}
		if batch = append(batch, f); timeout == nil {
			timeout = time.After(collectFor)
		}
	}
	return batch
}

// lookUp ends flights, or queues those that must be requested alone. They end without a result while the provider limits the
// rate or the breaker is open. Results are saved before flights are removed, so that every page finds one of them.
func (s *Service) lookUp(ctx context.Context, flights []*flight) {
	alone := s.health.mayRequest() && s.fetch(ctx, flights)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range flights {
		if isUnknown(f) && alone {
			s.alone <- f // has capacity for all flights
			continue
		}
		delete(s.flights, f.address)
		if isUnknown(f) {
			close(f.done)
		}
	}
}

// fetch reads contracts from the provider and saves the results. It reports whether the others must be requested alone.
func (s *Service) fetch(ctx context.Context, flights []*flight) (alone bool) {
	sampled := slices.IndexFunc(flights, func(f *flight) bool { return f.span.SpanContext().IsSampled() })
	ctx, span := upstream.StartSpan(trace.ContextWithSpan(ctx, flights[max(0, sampled)].span), "metadata.batch")
	alone, err := s.health.breaker.Execute(func() (alone bool, err error) {
		if alone, err = s.read(ctx, flights, false); !isOwn(err) {
			s.health.recordOutcome(err)
			if err != nil {
				s.o.Logger.Debug("metadata lookup failed", "provider", s.provider.name, "error", err)
			}
		}
		return alone, err
	})
	records := map[string]Record{}
	for _, f := range flights {
		if !isUnknown(f) {
			records[f.address] = *f.record
		}
	}
	span.SetAttributes(attribute.Int("tipcache.contracts", len(flights)), attribute.Int("tipcache.learned", len(records)))
	upstream.EndSpan(span, err)
	s.o.Store.Save(context.WithoutCancel(ctx), records)
	return alone
}

// read requests contracts, and again those that the response omits. If two responses omit all of them, or the response for a
// single one omits it, the provider has no record of them.
//
// One contract may make the provider refuse, fail or hang. So if a batch fails while the provider works, read reports that the
// others must be requested alone, and a single contract is blamed for the failure. The error is the provider's, not a contract's.
func (s *Service) read(ctx context.Context, flights []*flight, again bool) (alone bool, err error) {
	addresses := make([]string, len(flights))
	for i, f := range flights {
		addresses[i] = f.address
	}
	err = s.request(ctx, addresses, func(i int, c *Contract) { s.learn(flights[i], c) })
	missing := slices.DeleteFunc(slices.Clone(flights), func(f *flight) bool { return !isUnknown(f) })
	single, none := len(flights) == 1, len(missing) == len(flights)
	switch {
	case len(missing) == 0:
		return false, nil
	case err == nil && (single || none && again):
		for _, f := range missing {
			s.learn(f, nil)
		}
		return false, nil
	case err == nil:
		return s.read(ctx, missing, true)
	case ctx.Err() != nil, upstream.KindOf(err) == upstream.Overloaded, single && isOwn(err):
		return false, err
	case none:
		if down := s.checkProvider(ctx, err); down != nil {
			return false, down
		}
	}
	if single {
		s.o.Logger.Info("provider refuses a contract, listing it without metadata", "provider", s.provider.name,
			"contract", addresses[0], "error", err)
		s.learn(flights[0], nil)
	}
	return !single, nil
}

// checkProvider returns nil if the provider works, so that it responds for noContract. Otherwise it returns the rate limit that
// it reports now, or err. A response that is too large for noContract, too, counts in the breaker: it has no end.
func (s *Service) checkProvider(ctx context.Context, err error) error {
	failed := s.request(ctx, []string{noContract}, func(int, *Contract) {})
	switch {
	case failed == nil || upstream.KindOf(failed) == upstream.Overloaded:
		return failed
	case errors.Is(failed, account.ErrTooLarge):
		return s.provider.bad(errors.New("the response for an address without a contract is too large"))
	}
	return err
}

// request sends one request to the provider and records its duration and outcome.
func (s *Service) request(ctx context.Context, addresses []string, learn func(i int, c *Contract)) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	start := time.Now()
	err := providers[s.provider.name](ctx, s.provider, addresses, learn)
	s.metrics.requests.WithLabelValues(outcome(err)).Inc()
	s.metrics.seconds.Observe(time.Since(start).Seconds())
	return err
}
