package listener

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics show how near the listener is to its limit: at the limit, little else
// does.
type metrics struct {
	closed *prometheus.CounterVec
	waits  prometheus.Counter
}

func newMetrics(o Options, open func() float64) *metrics {
	f, name := promauto.With(o.Metrics), "tipcache_"+o.Name+"_connections"
	f.NewGauge(prometheus.GaugeOpts{Name: name + "_limit", Help: "Connections of clients that are accepted at once; 0 is no limit."}).Set(float64(o.Most))
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: "Connections of clients, idle ones included."}, open)
	m := &metrics{
		closed: f.NewCounterVec(prometheus.CounterOpts{
			Name: name + "_closed_total",
			Help: "Connections closed because slots were short: for others by the limit of all, of clients that do not read (stalled) and idle ones (idle); for others of their address (share); and new ones of addresses that hold their share (refused). And those of clients that do not read, where answers that were not read took too much memory (memory).",
		}, []string{"cause"}),
		waits: f.NewCounter(prometheus.CounterOpts{
			Name: name + "_waits_total",
			Help: "Times that new connections had to wait because all were busy.",
		}),
	}
	for _, cause := range []string{"stalled", "idle", "share", "refused", "memory"} {
		m.closed.WithLabelValues(cause) // a rate needs a beginning
	}
	return m
}
