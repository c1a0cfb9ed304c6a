// Package metadata reads descriptions of NFT contracts from a provider and caches them per contract.
//
// A page of collections calls Lookup once:
//
//  1. It loads the records of the page's addresses from the Store.
//  2. It serves fresh and stale records, and queues the refresh of the stale ones.
//  3. For every other address it joins the current flight, or starts one in the queue.
//  4. It waits for these flights until the page's budget is spent. Later results still fill the Store.
//  5. If a flight fails or is late, it serves the old record or {}, and reports the page as degraded.
//
// Workers collect batches of queued addresses (batch.go). They send no requests while the provider limits the rate or its
// circuit breaker is open (health.go). If a batch fails while the provider works, its contracts are requested once more, one by
// one. If a flight failed, the next page with its address starts another one.
package metadata

import (
	"cmp"
	"context"
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

// Settings are the operator's settings of a service, in the section metadata.
type Settings struct {
	Provider string        `yaml:"provider" flag:"metadata" secret:"true" doc:"Metadata provider: alchemy:URL (the URL ends with the key), blockscout:URL or none."`
	Budget   time.Duration `yaml:"-"` // maximum wait of a page; default 500 ms
	Timeout  time.Duration `yaml:"-"` // of a request, at least Budget; default 5 s
}

// DefaultSettings returns the settings of an operator who sets none.
func DefaultSettings() Settings { return Settings{Provider: "none"} }

// Options configure a Service.
type Options struct {
	Settings
	Chain  string        // network name, the chain of every description; "" omits it
	Store  Store         // for the records of Chain; required
	Memory *account.Part // budget of responses; nil means no limit

	Batch    int // maximum number of contracts in a batch; default 100
	InFlight int // maximum number of concurrent batches, and of concurrent requests for single contracts; default 2
	Queue    int // maximum number of queued and requested contracts, half of it with refreshes; default 2000

	Failures int // number of consecutive failed batches that open the breaker; default 5

	Transport  http.RoundTripper     // nil uses a new transport
	Logger     *slog.Logger          // nil discards logs
	Registerer prometheus.Registerer // nil disables metrics
}

// A Service looks up descriptions of contracts. It is safe for concurrent use. A nil Service has no provider and no
// descriptions.
type Service struct {
	o        Options
	provider *client
	health   *health
	metrics  *metrics

	awaited    chan *flight  // queue of those that pages wait for
	refreshes  chan *flight  // queue of the refreshes of stale records
	alone      chan *flight  // queue of those whose batch failed
	collecting chan struct{} // holds a token while a worker collects a batch

	mu      sync.Mutex
	flights map[string]*flight // by address; nil after Close

	stop    context.CancelFunc
	workers sync.WaitGroup
}

// Open starts a service. It returns nil for the provider none. Its errors do not contain the setting, which may have a key.
func Open(o Options) (*Service, error) {
	if o.Provider == "none" {
		return nil, nil
	}
	o = o.WithDefaults()
	p, err := openProvider(o.Provider, o.Transport, o.Memory)
	if err != nil {
		return nil, err
	}
	s := &Service{
		o: o, provider: p, health: newHealth(p.name, o), flights: map[string]*flight{},
		awaited: make(chan *flight, o.Queue), refreshes: make(chan *flight, o.Queue/2), alone: make(chan *flight, o.Queue),
		collecting: make(chan struct{}, 1),
	}
	s.metrics = newMetrics(o.Registerer, p.name, s.health.breaker.State)
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	for range o.InFlight {
		s.workers.Go(func() { s.readBatches(ctx) })
		s.workers.Go(func() { s.readAlone(ctx) })
	}
	return s, nil
}

// Close cancels the lookups in progress, waits for them, and releases the connections. Afterwards Lookup serves only records of
// the Store. The error is always nil.
func (s *Service) Close() error {
	if s == nil {
		return nil
	}
	s.stop()
	s.workers.Wait()
	s.provider.http.CloseIdleConnections()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flights {
		close(f.done)
	}
	s.flights = nil
	return nil
}

// WithDefaults replaces zero values by the defaults.
func (o Options) WithDefaults() Options {
	o.Budget = cmp.Or(o.Budget, 500*time.Millisecond)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Batch = cmp.Or(o.Batch, 100)
	o.InFlight = cmp.Or(o.InFlight, 2)
	o.Queue = cmp.Or(o.Queue, 2000)
	o.Failures = cmp.Or(o.Failures, 5)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// metrics are the metrics of a service, all with the label provider.
type metrics struct {
	requests  *prometheus.CounterVec
	seconds   prometheus.Histogram
	contracts *prometheus.CounterVec
	degraded  prometheus.Counter
}

func newMetrics(r prometheus.Registerer, provider string, breaker func() gobreaker.State) *metrics {
	f := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"provider": provider}, r))
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: "tipcache_metadata_" + name, Help: help}, labels)
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tipcache_metadata_breaker_state", Help: "Circuit breaker of the metadata provider: 0 closed, 1 half-open, 2 open.",
	}, func() float64 { return float64(breaker()) })
	return &metrics{
		requests: counter("requests_total", "Batch requests to the metadata provider, by outcome.", "outcome"),
		seconds: f.NewHistogram(upstream.Durations("tipcache_metadata_request_duration_seconds",
			"Duration of batch requests to the metadata provider, in seconds.",
			[]float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10})),
		contracts: counter("contracts_total", "Contracts looked up, by cache result: hit, stale or miss.", "cache"),
		degraded:  counter("degraded_lookups_total", "Pages sent without metadata that the provider may have.").WithLabelValues(),
	}
}

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
