package proxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics count what was answered. Every label is bounded: routes by the
// table, methods by methodClass, statuses and outcomes by the code.
type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	staleness *prometheus.HistogramVec
}

// newMetrics registers them; a nil registerer keeps them to itself.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "tipcache_proxy_requests_total",
			Help: "Requests answered, by route, method, status and what came of asking the cache.",
		}, []string{"route", "method", "status", "outcome"}),
		durations: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tipcache_proxy_request_duration_seconds",
			Help:    "Time from a request's arrival to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.00005, 4, 10), // 50 us to 13 s
		}, []string{"route", "outcome"}),
		staleness: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tipcache_proxy_staleness_blocks",
			Help:    "Blocks by which the tip was ahead of the answers given.",
			Buckets: []float64{0, 1, 2, 3, 5, 10, 30, 100, 1000},
		}, []string{"route"}),
	}
}

func (m *metrics) observe(c *gin.Context, rec *record, took time.Duration) {
	status := strconv.Itoa(c.Writer.Status())
	m.requests.WithLabelValues(rec.route, methodClass(c.Request.Method), status, rec.outcome).Inc()
	m.durations.WithLabelValues(rec.route, rec.outcome).Observe(took.Seconds())
	if rec.height > 0 && rec.tip > 0 && !rec.pinned {
		m.staleness.WithLabelValues(rec.route).Observe(float64(max(0, rec.tip-rec.height)))
	}
}

// methodClass bounds the label: a method may be any word.
func methodClass(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions:
		return method
	}
	return "other"
}
