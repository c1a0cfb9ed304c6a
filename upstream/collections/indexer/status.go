package indexer

import (
	"cmp"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// Status is how far an Indexer has come. The zero Status is that of one that
// has not begun; of one that lost its turn the last one stays.
type Status struct {
	Running bool          // it has its turn
	First   int64         // block this run began at
	Cursor  ledger.Cursor // the last block taken over
	Head    int64         // the newest block there is, as far as known
	Logs    int64         // events taken over in this run
	Window  int64         // blocks asked for in one call

	// Unverified says that one execution client is believed alone: there is no other at present, or
	// there was none while blocks of this run were taken over.
	Unverified bool

	Err   error // what ended Run, or why it does not get on at present
	Ended bool  // Run ended for that, and to run it again does not help
}

type status struct {
	mu sync.Mutex
	s  Status
}

// Status returns how far the indexer has come.
func (x *Indexer) Status() Status {
	_, window := x.pool.Window()
	x.status.mu.Lock()
	defer x.status.mu.Unlock()
	s := x.status.s
	s.Window, s.Unverified = window, s.Unverified || x.pool.Believed() < 2
	if trouble := x.pool.Trouble(x.o.Grace); trouble != nil && s.Running {
		s.Err = trouble
	}
	if s.Err == nil && s.Cursor.Incomplete {
		s.Err = ErrIncomplete
	}
	return s
}

// Counting reports whether the indexer has its turn and gets on.
func (s Status) Counting() bool {
	return s.Running && (s.Err == nil || errors.Is(s.Err, ErrIncomplete))
}

// Left is how many blocks are not yet taken over. It is not known while the indexer does not get on:
// the head that it saw last says nothing then.
func (s Status) Left() (blocks int64, known bool) {
	if !s.Counting() || s.Head == 0 {
		return 0, false
	}
	return max(0, s.Head-max(s.Cursor.Block, s.First-1)), true
}

// change notes what has changed.
func (st *status) change(note func(*Status)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	note(&st.s)
}

// tell notes why Run does not get on, nil where it does, and tells the log of a change.
func (x *Indexer) tell(err error) {
	var before error
	x.status.change(func(s *Status) { before, s.Err = s.Err, err })
	switch {
	case before == nil && err != nil:
		x.log.Warn("indexing stopped", "error", err)
	case before != nil && err == nil:
		x.log.Info("indexing resumed")
	}
}

// metrics measures an Indexer.
type metrics struct {
	logs     *prometheus.CounterVec
	ignored  *prometheus.CounterVec
	requests *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, x *Indexer) (*metrics, error) {
	own := prometheus.NewRegistry()
	own.MustRegister(gauges{x.Status})
	counter := func(name, help, label string) *prometheus.CounterVec {
		return promauto.With(own).NewCounterVec(prometheus.CounterOpts{Name: "tipcache_indexer_" + name, Help: help}, []string{label})
	}
	return &metrics{
		logs:     counter("logs_total", "Logs taken over, by event.", "event"),
		ignored:  counter("ignored_total", "Logs taken over that belong to no known collection, by event.", "event"),
		requests: counter("requests_total", "Pieces of work done by an endpoint, by result.", "result"),
	}, cmp.Or[prometheus.Registerer](r, prometheus.NewRegistry()).Register(own)
}

func (m *metrics) counted(events []Event, ignored [kinds]int) {
	var counts [kinds]int
	for i := range events {
		counts[events[i].Kind]++
	}
	for kind := range kinds {
		m.logs.WithLabelValues(kind.String()).Add(float64(counts[kind]))
		m.ignored.WithLabelValues(kind.String()).Add(float64(ignored[kind]))
	}
}

func (m *metrics) asked(result string) { m.requests.WithLabelValues(result).Inc() }

// gauges tell where an Indexer is: its state, and how far it has come while it has its turn and has
// heard of the chain.
type gauges struct{ status func() Status }

var stateDesc = prometheus.NewDesc("tipcache_indexer_state",
	"1 for the state it is in, 0 for the others. What follows running is why it does not get on, or has ended.", []string{"state"}, nil)

// progress is told by an Indexer that has its turn.
var progress = []struct {
	desc *prometheus.Desc
	of   func(Status) float64
}{
	{progressDesc("cursor_block", "Last block taken over, NaN while there is none."), func(s Status) float64 {
		return orNaN(s.Cursor.Block, s.Cursor.Chain != 0)
	}},
	{progressDesc("head_block", "Newest block of the chain, NaN while indexing does not go on."), func(s Status) float64 {
		return orNaN(s.Head, s.Counting())
	}},
	{progressDesc("lag_blocks", "Blocks not yet taken over, NaN while indexing does not go on."), func(s Status) float64 {
		return orNaN(s.Left())
	}},
	{progressDesc("lag_seconds", "Age of the last block taken over, NaN while there is none."), lagSeconds},
	{progressDesc("window_blocks", "Blocks asked for in one call."), func(s Status) float64 { return float64(s.Window) }},
}

func progressDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("tipcache_indexer_"+name, help+" Told by the one that has its turn.", nil, nil)
}

func orNaN(figure int64, known bool) float64 {
	if !known {
		return math.NaN()
	}
	return float64(figure)
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
	{"waiting", nil}, {"running", nil}, {"unverified", nil}, {"lagging", errLagging}, {"other_chain", ErrOtherChain}, {"diverged", ErrDiverged},
	{"forbidden", ErrForbidden}, {"unreachable", errUnreachable}, {"no_contract", ErrNoContract},
	{"incomplete", ErrIncomplete}, {"failed", nil},
}

// State is what an Indexer does, or why it does not get on, in one word.
func (s Status) State() string {
	switch {
	case s.Err == nil && s.Running && s.Unverified:
		return "unverified"
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
		if state.name == s.State() {
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
