package events

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	blocks *prometheus.CounterVec
	unheld *prometheus.CounterVec
	slow   prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := promauto.With(r)
	return &metrics{
		blocks: m.NewCounterVec(prometheus.CounterOpts{
			Name: "tipcache_events_blocks_total",
			Help: "Blocks whose events were told to subscribers, by where they came from: announced by a node, read from one, or lost because no node had them any more.",
		}, []string{"source"}),
		unheld: m.NewCounterVec(prometheus.CounterOpts{
			Name: "tipcache_events_unheld_total",
			Help: "Blocks whose transactions were told of before every node could find them, by reason: late, or no index.",
		}, []string{"reason"}),
		slow: m.NewCounter(prometheus.CounterOpts{
			Name: "tipcache_events_canceled_total",
			Help: "Subscriptions that were ended because their events were not taken.",
		}),
	}
}
