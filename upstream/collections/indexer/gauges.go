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
type gauges struct{ status func() Status }

var stateDesc = prometheus.NewDesc("tipcache_indexer_state",
	"1 for the state it is in, 0 for the others. What follows running is why it does not get on, or has ended.", []string{"state"}, nil)

// progress is told by an Indexer that has its turn.
var progress = []struct {
	desc *prometheus.Desc
	of   func(Status) float64
}{
	{progressDesc("cursor_block", "Last block taken over."), func(s Status) float64 { return float64(s.Cursor.Block) }},
	{progressDesc("head_block", "Newest block of the chain."), func(s Status) float64 { return float64(s.Head) }},
	{progressDesc("lag_blocks", "Blocks not yet taken over."), func(s Status) float64 { return float64(s.Left()) }},
	{progressDesc("lag_seconds", "Age of the last block taken over, NaN while there is none."), lagSeconds},
	{progressDesc("window_blocks", "Blocks asked for in one call."), func(s Status) float64 { return float64(s.Window) }},
}

func progressDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("tipcache_indexer_"+name, help+" Told by the one that has its turn.", nil, nil)
}

func lagSeconds(s Status) float64 {
	if s.Cursor.Time.IsZero() {
		return math.NaN()
	}
	return time.Since(s.Cursor.Time).Seconds()
}

// states are what the state can be, and of which error each of them is.
var states = []struct {
	name string
	err  error
}{
	{"waiting", nil}, {"running", nil}, {"lagging", errLagging}, {"other_chain", ErrOtherChain}, {"diverged", ErrDiverged},
	{"forbidden", ErrForbidden}, {"unreachable", errUnreachable}, {"no_contract", ErrNoContract}, {"failed", nil},
}

// state is what an Indexer does, or why it does not get on.
func (s Status) state() string {
	switch {
	case s.Err == nil && s.Running:
		return "running"
	case s.Err == nil:
		return "waiting"
	}
	for _, state := range states {
		if state.err != nil && errors.Is(s.Err, state.err) {
			return state.name
		}
	}
	return "failed"
}

// Describe implements prometheus.Collector.
func (g gauges) Describe(descs chan<- *prometheus.Desc) {
	descs <- stateDesc
	for _, gauge := range progress {
		descs <- gauge.desc
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(samples chan<- prometheus.Metric) {
	s := g.status()
	for _, state := range states {
		is := 0.0
		if state.name == s.state() {
			is = 1
		}
		samples <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, is, state.name)
	}
	if !s.Running || s.Head == 0 {
		return
	}
	for _, gauge := range progress {
		samples <- prometheus.MustNewConstMetric(gauge.desc, prometheus.GaugeValue, gauge.of(s))
	}
}
