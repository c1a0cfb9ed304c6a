package indexer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
	all := []prometheus.Collector{m.logs, m.ignored, m.requests}
	for name, gauge := range x.gauges() {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tipcache_indexer_" + name, Help: gauge.help}, func() float64 {
			return gauge.of(x.Status())
		}))
	}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

type gauge struct {
	help string
	of   func(Status) float64
}

func (x *Indexer) gauges() map[string]gauge {
	return map[string]gauge{
		"cursor_block":  {"Last block taken over.", func(s Status) float64 { return float64(s.Cursor.Block) }},
		"head_block":    {"Newest block of the chain.", func(s Status) float64 { return float64(s.Head) }},
		"lag_blocks":    {"Blocks not yet taken over.", func(s Status) float64 { return float64(max(0, s.Head-s.Cursor.Block)) }},
		"lag_seconds":   {"Age of the last block taken over.", lagSeconds},
		"window_blocks": {"Blocks asked for at once.", func(s Status) float64 { return float64(s.Window) }},
	}
}

func lagSeconds(s Status) float64 {
	if s.Cursor.Time.IsZero() {
		return 0
	}
	return time.Since(s.Cursor.Time).Seconds()
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
