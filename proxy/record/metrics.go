package record

import (
	"maps"
	"net/http"
	"strconv"
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
	route, method, outcome string
	status                 int
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
			Help: "Requests answered, by route, method, status and what came of asking the cache.",
		}, []string{"route", "method", "status", "outcome"}),
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

func (m *metrics) observe(rec *Record, end *End) {
	m.observeIn(m.series(endingOf(rec, end)), rec, end)
}

// observeRepeated finds the series as those of the template's last record, whose
// ending is mostly the same.
func (m *metrics) observeRepeated(t *Template, rec *Record, end *End) {
	last := t.counted.Load()
	if last == nil || last.by.status != end.Status || last.by.outcome != rec.Outcome {
		by := endingOf(rec, end)
		last = &counted{by, m.series(by)}
		t.counted.Store(last)
	}
	m.observeIn(last.all, rec, end)
}

func endingOf(rec *Record, end *End) ending {
	return ending{rec.Route, methodClass(end.Method), rec.Outcome, end.Status}
}

func (m *metrics) observeIn(counted series, rec *Record, end *End) {
	counted.requests.Inc()
	if !rec.Streamed {
		counted.durations.Observe(end.Took.Seconds())
	}
	switch {
	case !rec.Cached || rec.Pinned:
	case rec.Height > 0 && rec.Tip > 0:
		counted.staleness.Observe(float64(max(0, rec.Tip-rec.Height)))
	default:
		counted.ages.Observe(rec.Age.Seconds())
	}
	if rec.Degraded {
		m.degraded.Inc()
	}
}

// series finds those of an ending: by labels, as the registry finds them, it
// would take longer than the cache.
func (m *metrics) series(e ending) series {
	if found, ok := (*m.known.Load())[e]; ok {
		return found
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := maps.Clone(*m.known.Load())
	known[e] = series{
		m.requests.WithLabelValues(e.route, e.method, strconv.Itoa(e.status), e.outcome),
		m.durations.WithLabelValues(e.route, e.outcome),
		m.staleness.WithLabelValues(e.route),
		m.ages.WithLabelValues(e.route),
	}
	m.known.Store(&known)
	return known[e]
}

// methodClass bounds the label: a method may be any word.
func methodClass(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions:
		return method
	}
	return "other"
}
