package expect

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric returns the sum over the samples of a metric that have all these label values. A histogram counts its observations.
func Metric(t testing.TB, from prometheus.Gatherer, name string, labels ...string) (sum float64) {
	t.Helper()
	for values, sample := range Metrics(t, from, name) {
		of := strings.Split(values, "|")
		if !slices.ContainsFunc(labels, func(label string) bool { return !slices.Contains(of, label) }) {
			sum += sample
		}
	}
	return sum
}

// Metrics returns the samples of a metric by label values, which "|" separates.
func Metrics(t testing.TB, from prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	NoError(t, err)
	samples := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() != name {
				continue
			}
			var values []string
			for _, label := range m.GetLabel() {
				values = append(values, label.GetValue())
			}
			samples[strings.Join(values, "|")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return samples
}

// LiveHeap returns the number of bytes on the heap that are in use, without those in pools.
func LiveHeap() int64 {
	runtime.GC()
	runtime.GC() // frees what pools dropped during the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // less than 63 bits
}
