package indexer

import "github.com/prometheus/client_golang/prometheus"

// metrics measures an Indexer. A nil metrics measures nothing.
type metrics struct {
	logs     *prometheus.CounterVec
	ignored  *prometheus.CounterVec
	requests *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, x *Indexer) (*metrics, error) {
	if r == nil {
		return nil, nil
	}
	m := &metrics{
		logs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tipcache_indexer_logs_total", Help: "Logs taken over, by event.",
		}, []string{"event"}),
		ignored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tipcache_indexer_ignored_total", Help: "Logs taken over that belong to no known collection, by event.",
		}, []string{"event"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tipcache_indexer_requests_total", Help: "Pieces of work done by an endpoint, by result.",
		}, []string{"result"}),
	}
	for _, c := range []prometheus.Collector{m.logs, m.ignored, m.requests, gauges{x.Status}} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) counted(events []Event, ignored [kinds]int) {
	if m == nil {
		return
	}
	var counts [kinds]int
	for i := range events {
		counts[events[i].Kind]++
	}
	for kind := range kinds {
		m.logs.WithLabelValues(kind.String()).Add(float64(counts[kind]))
		m.ignored.WithLabelValues(kind.String()).Add(float64(ignored[kind]))
	}
}

func (m *metrics) asked(result string) {
	if m != nil {
		m.requests.WithLabelValues(result).Inc()
	}
}
