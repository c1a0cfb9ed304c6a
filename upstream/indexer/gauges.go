package indexer

import (
	"errors"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gauges tell where an Indexer is: its state, and while it has its turn how far
// it has come. Of one that waits that would be a number of the past, and of one
// that has not heard of the chain yet a lag of 0.
type gauges struct {
	status func() Status
	state  *prometheus.Desc
	all    []gauge
}

type gauge struct {
	desc *prometheus.Desc
	of   func(Status) float64
}

// states are what the state can be.
var states = []string{"waiting", "running", "lagging", "other_chain", "diverged", "forbidden", "no_contract", "failed"}

func newGauges(status func() Status) *gauges {
	g := &gauges{status: status}
	g.state = prometheus.NewDesc("tipcache_indexer_state", "1 for the state it is in, 0 for the others. What follows running is why it does not get on, or has ended.", []string{"state"}, nil)
	add := func(name, help string, of func(Status) float64) {
		desc := prometheus.NewDesc("tipcache_indexer_"+name, help+" Told by the one that has its turn.", nil, nil)
		g.all = append(g.all, gauge{desc, of})
	}
	add("cursor_block", "Last block taken over.", func(s Status) float64 { return float64(s.Cursor.Block) })
	add("head_block", "Newest block of the chain.", func(s Status) float64 { return float64(s.Head) })
	add("lag_blocks", "Blocks not yet taken over.", func(s Status) float64 { return float64(s.Left()) })
	add("lag_seconds", "Age of the last block taken over, NaN while there is none.", lagSeconds)
	add("window_blocks", "Blocks asked for in one call.", func(s Status) float64 { return float64(s.Window) })
	return g
}

func lagSeconds(s Status) float64 {
	if s.Cursor.Time.IsZero() {
		return math.NaN()
	}
	return time.Since(s.Cursor.Time).Seconds()
}

// state is what an Indexer does, or why it does not get on.
func (s Status) state() string {
	switch {
	case s.Err == nil && s.Running:
		return "running"
	case s.Err == nil:
		return "waiting"
	case errors.Is(s.Err, errLagging):
		return "lagging"
	case errors.Is(s.Err, ErrOtherChain):
		return "other_chain"
	case errors.Is(s.Err, ErrDiverged):
		return "diverged"
	case errors.Is(s.Err, ErrForbidden):
		return "forbidden"
	case errors.Is(s.Err, ErrNoContract):
		return "no_contract"
	default:
		return "failed"
	}
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(descs chan<- *prometheus.Desc) {
	descs <- g.state
	for _, gauge := range g.all {
		descs <- gauge.desc
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(samples chan<- prometheus.Metric) {
	s := g.status()
	for _, state := range states {
		is := 0.0
		if state == s.state() {
			is = 1
		}
		samples <- prometheus.MustNewConstMetric(g.state, prometheus.GaugeValue, is, state)
	}
	if !s.Running || s.Head == 0 {
		return
	}
	for _, gauge := range g.all {
		samples <- prometheus.MustNewConstMetric(gauge.desc, prometheus.GaugeValue, gauge.of(s))
	}
}
