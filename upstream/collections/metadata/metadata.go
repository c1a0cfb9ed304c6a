// Package metadata describes NFT contracts: what a provider knows of each,
// remembered per contract.
//
// A page of collections calls Lookup once:
//
//  1. Load the records of its addresses from the Store.
//  2. Serve the fresh ones, and the stale ones too, whose refresh is queued.
//  3. Join the flight of every other address, or start one in the queue.
//  4. Wait for these flights until the page's budget is spent. They go on
//     without the page and fill the Store.
//  5. Where a flight failed or is late, serve what was known before, or {},
//     and say that the page is degraded.
//
// Workers take addresses off the queue, one batch at a time, look into the
// Store once more, and ask the provider unless it wants fewer requests or its
// circuit breaker is open. A request that fails while the provider answers for
// others is divided until the contract to blame is alone (divide.go). Nothing is
// asked twice: the next page that wants an address whose flight failed starts
// another one.
package metadata

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream"
)

// Options say how contracts are looked up and for how long an answer serves.
// The periods are measured from the reading of a contract, and differ by up to
// a tenth from one contract to the next, so that what was learned together
// does not grow old together.
type Options struct {
	Chain string // network name, the chain of every description; "" leaves it out
	Store Store  // required

	Budget  time.Duration // what a page waits at most; 500 ms
	Timeout time.Duration // what a request may take, at least Budget; 5 s

	Batch    int // contracts in a batch; 100
	InFlight int // batches asked for at the same time; 2
	Queue    int // contracts waiting to be asked for, more are not; 2000

	Fresh        time.Duration // served as it is; a day
	Stale        time.Duration // served while it is read again; a week
	StaleIfError time.Duration // served when it cannot be read again; 30 days

	Failures int           // batches failed in a row that open the breaker; 5
	Cooldown time.Duration // an open breaker stays open; 30 s

	Transport  http.RoundTripper     // nil is a transport of the service's own
	Logger     *slog.Logger          // nil logs nothing
	Registerer prometheus.Registerer // nil counts nothing
}

// A Service describes contracts. It is safe for concurrent use. A nil Service
// stands for "no provider": it knows nothing about any contract.
type Service struct {
	o        Options
	provider *client
	breaker  *gobreaker.CircuitBreaker[struct{}]
	backoff  backoff
	limited  *upstream.Outage // while the provider wants fewer requests
	control  control
	failure  atomic.Pointer[error] // how the last request ended
	queue    *queue
	metrics  *metrics

	stop    context.CancelFunc
	workers sync.WaitGroup
}

// Open starts the service that the spec names: "alchemy:URL", whose URL ends
// with the key, "blockscout:URL", or "none", for which the Service is nil.
// No error of it repeats the spec.
func Open(spec string, o Options) (*Service, error) {
	if spec == "none" {
		return nil, nil
	}
	o = o.WithDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	p, err := openProvider(spec, o.Transport)
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, provider: p, queue: newQueue(o.Queue)}
	s.breaker = s.newBreaker()
	s.limited = upstream.NewOutage(o.Logger, "requests to metadata provider "+p.name)
	if s.metrics, err = newMetrics(o.Registerer, p.name, s.breaker.State); err != nil {
		return nil, err
	}
	s.start()
	return s, nil
}

func (s *Service) start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	for range s.o.InFlight {
		s.workers.Go(func() { s.work(ctx) })
	}
}

// State tells how the provider is: the state of its circuit breaker, half-open or
// open. While that is closed, what the last request met: rate_limited, unauthorized
// or failing, and closed if nothing. Without a provider it is off. The error, nil if
// the provider is well, says more, and no credential.
func (s *Service) State() (state string, err error) {
	if s == nil {
		return "off", nil
	}
	state = s.breaker.State().String()
	if last := s.failure.Load(); last != nil {
		err = *last
	}
	switch {
	case err == nil || state != gobreaker.StateClosed.String():
		return state, err
	case upstream.KindOf(err) == upstream.Overloaded:
		return "rate_limited", err
	case errors.Is(err, errUnauthorized):
		return "unauthorized", err
	}
	return "failing", err
}

// Close abandons the lookups under way, waits for them to end, and gives up
// the connections and the metrics. Lookup then serves what the Store has.
// The error is always nil.
func (s *Service) Close() error {
	if s == nil {
		return nil
	}
	s.queue.close()
	s.stop()
	s.workers.Wait()
	s.provider.http.CloseIdleConnections()
	s.metrics.unregister()
	return nil
}

// WithDefaults fills in what was left zero.
func (o Options) WithDefaults() Options {
	o.Budget = cmp.Or(o.Budget, 500*time.Millisecond)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Batch = cmp.Or(o.Batch, 100)
	o.InFlight = cmp.Or(o.InFlight, 2)
	o.Queue = cmp.Or(o.Queue, 2000)
	o.Fresh = cmp.Or(o.Fresh, 24*time.Hour)
	o.Stale = cmp.Or(o.Stale, 7*24*time.Hour)
	o.StaleIfError = cmp.Or(o.StaleIfError, 30*24*time.Hour)
	o.Failures = cmp.Or(o.Failures, 5)
	o.Cooldown = cmp.Or(o.Cooldown, 30*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

func (o *Options) validate() error {
	switch {
	case o.Store == nil:
		return errors.New("metadata: no store")
	case min(o.Batch, o.InFlight, o.Queue, o.Failures) < 0:
		return errors.New("metadata: batch, in-flight, queue and failures must be positive")
	case min(o.Budget, o.Fresh, o.Cooldown) < 0:
		return errors.New("metadata: every time must be positive")
	case o.Timeout < o.Budget:
		return fmt.Errorf("metadata: timeout %v is below the page's budget %v", o.Timeout, o.Budget)
	case o.Stale < o.Fresh || o.StaleIfError < o.Stale:
		return errors.New("metadata: the times fresh, stale and stale-if-error must not decrease")
	}
	return nil
}
