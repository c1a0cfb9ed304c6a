package admin_test

import (
	"math"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
)

func TestQuantilesAreWithinTheirBuckets(t *testing.T) {
	for name, tt := range map[string]struct {
		observed []float64
		want     float64 // p50 in seconds
	}{
		"the first bucket, in proportion":                {[]float64{.5, .5}, .5},
		"the second bucket, by ratio":                    {[]float64{2, 2}, 2}, // halfway from 1 to 4
		"the end of a bucket before others":              {[]float64{2, 2, 2, 10, 10, 10}, 4},
		"the start of the last bucket with a bound":      {[]float64{10, 10, 10, 10}, 8}, // halfway from 4 to 16
		"beyond the last bound":                          {[]float64{100, 100}, 16},
		"between buckets with an empty one between them": {[]float64{.5, 10, 10, 10}, 4 * math.Pow(4, 1./3)},
	} {
		synctest.Test(t, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tipcache_proxy_request_duration_seconds", Buckets: []float64{1, 4, 16}})
			registry.MustRegister(took)
			next := streamLines(t, registry)
			next()
			for _, seconds := range tt.observed {
				took.Observe(seconds)
			}
			if got := next().Samples[0].P50; got == nil || math.Abs(*got-tt.want) > 1e-9 {
				t.Errorf("%s: p50 = %v, want %v", name, got, tt.want)
			}
		})
	}
}
