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
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// Options say how contracts are looked up and for how long an answer serves.
// The periods are measured from the reading of a contract, and differ by up to
// a tenth from one contract to the next, so that what was learned together
// does not grow old together.
type Options struct {
	Chain  string        // network name, the chain of every description; "" leaves it out
	Store  Store         // required
	Memory *account.Part // answers are read within it; nil means no limit

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
	health   *health
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
	p, err := openProvider(spec, o.Transport, o.Memory)
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, provider: p, health: newHealth(p.name, o), queue: newQueue(o.Queue)}
	if s.metrics, err = newMetrics(o.Registerer, p.name, s.health.breaker.State); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	for range o.InFlight {
		s.workers.Go(func() { s.work(ctx) })
	}
	return s, nil
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
	s.metrics.registerer.Unregister(s.metrics.own)
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

// metrics are the service's numbers, all with the label provider.
type metrics struct {
	requests  *prometheus.CounterVec
	seconds   prometheus.Histogram
	contracts *prometheus.CounterVec
	degraded  prometheus.Counter

	own        *prometheus.Registry // has all of them
	registerer prometheus.Registerer
}

// newMetrics registers the numbers; without a Registerer they are not exported.
func newMetrics(r prometheus.Registerer, provider string, breaker func() gobreaker.State) (*metrics, error) {
	name := func(n string) string { return prometheus.BuildFQName("tipcache", "metadata", n) }
	own := prometheus.NewRegistry()
	f := promauto.With(own)
	m := &metrics{
		own:        own,
		registerer: prometheus.WrapRegistererWith(prometheus.Labels{"provider": provider}, cmp.Or[prometheus.Registerer](r, prometheus.NewRegistry())),
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: name("requests_total"), Help: "Batch requests to the metadata provider, by outcome.",
		}, []string{"outcome"}),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: name("request_duration_seconds"), Help: "Duration of batch requests to the metadata provider, in seconds.",
			Buckets: []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10},

			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}),
		contracts: f.NewCounterVec(prometheus.CounterOpts{
			Name: name("contracts_total"), Help: "Contracts looked up, by cache result: hit, stale or miss.",
		}, []string{"cache"}),
		degraded: f.NewCounter(prometheus.CounterOpts{
			Name: name("degraded_lookups_total"), Help: "Pages sent without metadata that the provider may have.",
		}),
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: name("breaker_state"), Help: "Circuit breaker of the metadata provider: 0 closed, 1 half-open, 2 open.",
	}, func() float64 { return float64(breaker()) })
	if err := m.registerer.Register(own); err != nil {
		return nil, fmt.Errorf("metadata: register metrics: %w", err)
	}
	return m, nil
}

// outcome is the word for how asking the provider ended.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	switch kind := upstream.KindOf(err); kind {
	case 0:
		return "canceled"
	case upstream.Overloaded:
		return "rate_limited"
	default:
		return kind.String()
	}
}
