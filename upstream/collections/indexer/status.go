package indexer

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// Status is the progress of an Indexer. It is zero before Run, and keeps its last value after Run.
type Status struct {
	Running bool          // Run is running
	First   int64         // first block of this run; meaningless before Cursor is known
	Cursor  ledger.Cursor // last applied block
	Head    int64         // newest known block of the chain
	Logs    int64         // number of events applied in this run
	Window  int64         // blocks per call

	// Unverified is true if only one execution client is usable, or was usable while blocks of this run were applied.
	Unverified bool

	// Err is what ended Run, or why it makes no progress. It is nil after a block was applied, and Options.Grace after Run was
	// interrupted.
	Err   error
	Ended bool // Err ended Run, and running it again does not help
}

type status struct {
	mu    sync.Mutex
	s     Status
	ended time.Time // when the last Run ended

	waiting error // why nobody indexes while Run does not run; nil if unknown
}

// Status returns the indexer's progress.
func (x *Indexer) Status() Status {
	_, window := x.pool.Window()
	x.status.mu.Lock()
	defer x.status.mu.Unlock()
	s := x.status.s
	s.Window, s.Unverified = window, s.Unverified || x.pool.Trusted() < 2
	switch trouble := x.pool.Trouble(x.o.Grace); {
	case s.Ended:
	case !s.Running && time.Since(x.status.ended) > x.o.Grace:
		s.Err = x.status.waiting // nil if another indexer works; until then, this one may run again at once
	case trouble != nil:
		s.Err = trouble
	}
	if s.Err == nil && s.Cursor.Incomplete {
		s.Err = ErrIncomplete
	}
	return s
}

// Counting reports whether the indexer is running and makes progress.
func (s Status) Counting() bool {
	return s.Running && (s.Err == nil || errors.Is(s.Err, ErrIncomplete))
}

// Left returns the number of blocks that are not applied yet. It is unknown while the indexer makes no progress, because
// the last known head is outdated then.
func (s Status) Left() (blocks int64, known bool) {
	if !s.Counting() || s.Head == 0 {
		return 0, false
	}
	return max(0, s.Head-max(s.Cursor.Block, s.First-1)), true
}

func (st *status) change(change func(*Status)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	change(&st.s)
}

// setErr records and logs why Run makes no progress. nil means that it does.
func (x *Indexer) setErr(err error) {
	var before error
	x.status.change(func(s *Status) { before, s.Err = s.Err, err })
	switch {
	case before == nil && err != nil:
		x.log.Warn("indexing stopped", "error", err)
	case before != nil && err == nil:
		x.log.Info("indexing resumed")
	}
}

type metrics struct {
	logs     *prometheus.CounterVec
	ignored  *prometheus.CounterVec
	requests *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, x *Indexer) *metrics {
	if r != nil {
		r.MustRegister(gauges{x.Status})
	}
	counter := func(name, help, label string) *prometheus.CounterVec {
		return promauto.With(r).NewCounterVec(prometheus.CounterOpts{Name: "tipcache_indexer_" + name, Help: help}, []string{label})
	}
	return &metrics{
		logs:     counter("logs_total", "Logs applied to the store, by event.", "event"),
		ignored:  counter("ignored_total", "Applied logs that belong to no known collection, by event.", "event"),
		requests: counter("requests_total", "Requests to execution clients, by result.", "result"),
	}
}

func (m *metrics) countLogs(events []Event, ignored [kinds]int) {
	var counts [kinds]int
	for i := range events {
		counts[events[i].Kind]++
	}
	for kind := range kinds {
		m.logs.WithLabelValues(kind.String()).Add(float64(counts[kind]))
		m.ignored.WithLabelValues(kind.String()).Add(float64(ignored[kind]))
	}
}

// gauges collects an Indexer's state, and its progress while it runs and knows the chain's head.
type gauges struct{ status func() Status }

var stateDesc = prometheus.NewDesc("tipcache_indexer_state",
	"1 for the indexer's current state, 0 for the others. States other than waiting, running and unverified name a problem.", []string{"state"}, nil)

// progress are the gauges of a running Indexer.
var progress = []struct {
	desc *prometheus.Desc
	of   func(Status) float64
}{
	{progressDesc("cursor_block", "Last applied block. NaN if there is none."), func(s Status) float64 {
		return orNaN(s.Cursor.Block, s.Cursor.Chain != 0)
	}},
	{progressDesc("head_block", "Newest block of the chain. NaN while indexing makes no progress."), func(s Status) float64 {
		return orNaN(s.Head, s.Counting())
	}},
	{progressDesc("lag_blocks", "Number of blocks not applied yet. NaN while indexing makes no progress."), func(s Status) float64 {
		return orNaN(s.Left())
	}},
	{progressDesc("lag_seconds", "Age of the last applied block in seconds. NaN if there is none."), lagSeconds},
	{progressDesc("window_blocks", "Number of blocks per call."), func(s Status) float64 { return float64(s.Window) }},
}

func progressDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("tipcache_indexer_"+name, help+" Reported only by the replica that indexes.", nil, nil)
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

var states = []struct {
	name string
	err  error
}{
	{"waiting", nil}, {"running", nil}, {"unverified", nil}, {"lagging", errLagging}, {"other_chain", ErrOtherChain}, {"diverged", ErrDiverged},
	{"forbidden", ErrForbidden}, {"unreachable", evm.ErrUnreachable}, {"no_contract", ErrNoContract},
	{"incomplete", ErrIncomplete}, {"leader_stalled", ErrLeaderStalled}, {"failed", nil},
}

// State returns the state of an Indexer in one word.
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

func (g gauges) Describe(descs chan<- *prometheus.Desc) {
	descs <- stateDesc
	for _, gauge := range progress {
		descs <- gauge.desc
	}
}

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
