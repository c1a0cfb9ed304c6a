package collections

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
)

// metrics measures List. A nil metrics measures nothing.
type metrics struct{ seconds *prometheus.HistogramVec }

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	if r == nil {
		return nil, nil
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "tipcache_collections_list_duration_seconds",
		Help:    "Time the collection store took for a page, by result.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},

		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}, []string{"result"})
	if err := r.Register(seconds); err != nil {
		return nil, err
	}
	return &metrics{seconds}, nil
}

func (m *metrics) observe(took time.Duration, err error) {
	if m != nil {
		m.seconds.WithLabelValues(result(err)).Observe(took.Seconds())
	}
}

// result is the label of an outcome.
func result(err error) string {
	if err == nil {
		return "ok"
	}
	if errors.Is(err, context.Canceled) {
		return "canceled"
	}
	return cmp.Or(upstream.KindOf(err).String(), "refused")
}
