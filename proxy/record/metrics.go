package record

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics count what was answered. Every label is bounded: routes by the
// table, methods by methodClass, statuses and outcomes by the code.
type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	staleness *prometheus.HistogramVec
	ages      *prometheus.HistogramVec
	degraded  prometheus.Counter

	mu    sync.Mutex
	known atomic.Pointer[map[ending]series] // those met so far; replaced under mu, read without
}

// An ending is how requests end that are counted together.
type ending struct {
	route, method, outcome, fault string
	status                        int
}

// series count the requests of one ending.
type series struct {
	requests  prometheus.Counter
	durations prometheus.Observer
	staleness prometheus.Observer
	ages      prometheus.Observer
}

// newMetrics registers them; a nil registerer keeps them to itself.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "tipcache_proxy_requests_total",
			Help: "Requests answered, by route, method, status, what came of asking the cache, and for a status of 500 and more whose fault it is: input (what was asked brings it about) or server.",
		}, []string{"route", "method", "status", "outcome", "fault"}),
		durations: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tipcache_proxy_request_duration_seconds",
			Help:    "Time from a request's arrival to the end of its answer, but for streams, which last as long as their clients stay.",
			Buckets: prometheus.ExponentialBuckets(0.00005, 4, 10), // 50 us to 13 s

			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}, []string{"route", "outcome"}),
		staleness: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tipcache_proxy_staleness_blocks",
			Help:    "Blocks by which the tip was ahead of the answers given.",
			Buckets: []float64{0, 1, 2, 3, 5, 10, 30, 100, 1000},
		}, []string{"route"}),
		ages: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tipcache_proxy_age_seconds",
			Help:    "Time since the origin last confirmed the answers given, where freshness is not measured in blocks.",
			Buckets: prometheus.ExponentialBuckets(0.1, 4, 9), // 0.1 s to 1.8 h
		}, []string{"route"}),
		degraded: f.NewCounter(prometheus.CounterOpts{
			Name: "tipcache_proxy_degraded_pages_total",
			Help: "Pages of collections given without metadata that they should have.",
		}),
	}
	m.known.Store(&map[ending]series{})
	return m
}

// A Tally counts requests that mostly end in the same way, in less time than End does.
type Tally struct{ last atomic.Pointer[tallied] }

type tallied struct {
	by  ending
	all series
}

// Count counts a request that has ended.
func (r *Recorder) Count(t *Tally, rec *Record, end *End) {
	last := t.last.Load()
	if by := endingOf(rec, end); last == nil || last.by != by {
		last = &tallied{by, r.metrics.series(by)}
		t.last.Store(last)
	}
	r.metrics.observe(last.all, rec, end)
}
