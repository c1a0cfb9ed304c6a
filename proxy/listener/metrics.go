package listener

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics show how near the listener is to its limit: at the limit, little else
// does.
type metrics struct {
	closed *prometheus.CounterVec
	waits  prometheus.Counter
}

func newMetrics(o Options, open func() int) *metrics {
	f, name := promauto.With(o.Metrics), "tipcache_"+o.Name+"_connections"
	f.NewGauge(prometheus.GaugeOpts{Name: name + "_limit", Help: "Connections of clients that are accepted at once; 0 is no limit."}).Set(float64(o.Most))
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: "Connections of clients, idle ones included."}, func() float64 { return float64(open()) })
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

// A lack of slots is told once a minute at most. It belongs to Accept.
type lack struct {
	log    *slog.Logger
	most   int
	told   time.Time
	closed map[string]int // since then, by cause
}

func (l *lack) tell(why string, closed int) {
	l.closed[why] += closed
	if now := time.Now(); now.Sub(l.told) >= time.Minute {
		l.log.Warn("connection slots are short", "limit", l.most, "closed_stalled", l.closed["stalled"], "closed_idle", l.closed["idle"])
		l.told = now
		clear(l.closed)
	}
}
