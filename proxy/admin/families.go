package admin

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// families are the metrics of one moment, by name. A missing metric counts as 0.
type families map[string]*dto.MetricFamily

func gather(g prometheus.Gatherer) families {
	list, _ := g.Gather() // collectors that fail are missing; /metrics reports their errors
	all := make(families, len(list))
	for _, f := range list {
		all[f.GetName()] = f
	}
	return all
}

// total returns the sum of the metrics of a name.
func (f families) total(name string) (sum float64) {
	for _, m := range f[name].GetMetric() {
		sum += valueOf(m)
	}
	return sum
}

// ofListeners returns the sum over all client listeners of the metrics with the suffix.
func (f families) ofListeners(suffix string) (sum float64) {
	for _, name := range []string{"http", "rpc", "grpc"} {
		sum += f.total("tipcache_" + name + "_" + suffix)
	}
	return sum
}

// by returns sums over the metrics of a name, by the values of a label.
func (f families) by(name, label string, value func(*dto.Metric) float64) map[string]float64 {
	sums := map[string]float64{}
	for _, m := range f[name].GetMetric() {
		sums[labelOf(m, label)] += value(m)
	}
	return sums
}

func labelOf(m *dto.Metric, label string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == label {
			return pair.GetValue()
		}
	}
	return ""
}

// valueOf returns the value of a metric; for a histogram, its number of observations.
func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Histogram != nil:
		return float64(m.GetHistogram().GetSampleCount())
	default:
		return m.GetGauge().GetValue()
	}
}

// A distribution is a histogram, or the sum of several. The last bucket has no upper bound.
type distribution struct {
	bounds []float64 // upper bounds of the buckets
	counts []float64 // observations per bucket; one more than bounds
}

// distribution returns the sum of the histograms of a name.
func (f families) distribution(name string) (d distribution) {
	for _, m := range f[name].GetMetric() {
		buckets := m.GetHistogram().GetBucket()
		if d.counts == nil {
			d.counts = make([]float64, len(buckets)+1)
			for _, b := range buckets {
				d.bounds = append(d.bounds, b.GetUpperBound())
			}
		}
		below := uint64(0)
		for i, b := range buckets {
			d.counts[i] += float64(b.GetCumulativeCount() - below)
			below = b.GetCumulativeCount()
		}
		d.counts[len(buckets)] += float64(m.GetHistogram().GetSampleCount() - below)
	}
	return d
}

// since returns the observations after an earlier state of the same histograms.
func (d distribution) since(before distribution) distribution {
	if len(before.counts) != len(d.counts) {
		return d
	}
	diff := distribution{d.bounds, make([]float64, len(d.counts))}
	for i := range d.counts {
		diff.counts[i] = d.counts[i] - before.counts[i]
	}
	return diff
}

// quantile returns a quantile, interpolated within its bucket, or nil if nothing was observed.
func (d distribution) quantile(q float64) *float64 {
	total := 0.0
	for _, n := range d.counts {
		total += n
	}
	if total == 0 {
		return nil
	}
	rank, passed := q*total, 0.0
	for i, n := range d.counts {
		if passed+n >= rank && n > 0 {
			value := d.inside(i, (rank-passed)/n)
			return &value
		}
		passed += n
	}
	return nil
}

// inside interpolates geometrically within a bucket, because bounds grow by a factor.
func (d distribution) inside(i int, share float64) float64 {
	switch {
	case i == len(d.bounds):
		return d.bounds[i-1]
	case i == 0:
		return d.bounds[0] * share
	default:
		return d.bounds[i-1] * math.Pow(d.bounds[i]/d.bounds[i-1], share)
	}
}
