package metadata

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream"
)

// metrics are the service's numbers, all with the label provider.
type metrics struct {
	requests  *prometheus.CounterVec
	seconds   prometheus.Histogram
	contracts *prometheus.CounterVec
	degraded  prometheus.Counter

	registerer prometheus.Registerer
	registered []prometheus.Collector
}

// newMetrics registers the numbers; without a Registerer they are not exported.
func newMetrics(r prometheus.Registerer, provider string, breaker func() gobreaker.State) (*metrics, error) {
	name := func(n string) string { return prometheus.BuildFQName("tipcache", "metadata", n) }
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name("requests_total"), Help: "Batches asked of the provider, by outcome.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name("request_duration_seconds"), Help: "Time the provider took for a batch.",
			Buckets: []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10},

			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}),
		contracts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name("contracts_total"), Help: "Contracts looked up, by what the cache had: hit, stale or miss.",
		}, []string{"cache"}),
		degraded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: name("degraded_lookups_total"), Help: "Pages that went out with less than the provider may know.",
		}),
	}
	state := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: name("breaker_state"), Help: "Circuit breaker of the provider: 0 closed, 1 half-open, 2 open.",
	}, func() float64 { return float64(breaker()) })
	if r == nil {
		return m, nil
	}
	m.registerer = prometheus.WrapRegistererWith(prometheus.Labels{"provider": provider}, r)
	return m, m.register(m.requests, m.seconds, m.contracts, m.degraded, state)
}

// register registers all collectors or none.
func (m *metrics) register(all ...prometheus.Collector) error {
	for _, c := range all {
		if err := m.registerer.Register(c); err != nil {
			m.unregister()
			return fmt.Errorf("metadata: register metrics: %w", err)
		}
		m.registered = append(m.registered, c)
	}
	return nil
}

func (m *metrics) unregister() {
	for _, c := range m.registered {
		m.registerer.Unregister(c)
	}
}

// count counts the contracts of a page by what the cache had of them.
func (m *metrics) count(hits, stale, misses int) {
	m.contracts.WithLabelValues("hit").Add(float64(hits))
	m.contracts.WithLabelValues("stale").Add(float64(stale))
	m.contracts.WithLabelValues("miss").Add(float64(misses))
}

// observe counts a batch the provider was asked for.
func (m *metrics) observe(err error, took time.Duration) {
	m.requests.WithLabelValues(outcome(err)).Inc()
	m.seconds.Observe(took.Seconds())
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
