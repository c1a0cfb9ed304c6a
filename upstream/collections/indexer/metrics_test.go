package indexer_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// scrape returns the samples by name, those of a name added up, and the state.
func scrape(t *testing.T, r *prometheus.Registry) (samples map[string]float64, state string) {
	t.Helper()
	families, err := r.Gather()
	must(t, err)
	samples = map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			samples[family.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if family.GetName() == "tipcache_indexer_state" && m.GetGauge().GetValue() == 1 {
				state += m.Label[0].GetValue()
			}
		}
	}
	return samples, state
}

func TestMetricsReportProgress(t *testing.T) {
	h := newHistory(11)
	h.grow(300)
	store, r := open(t, memory(t)), prometheus.NewRegistry()
	o := quick(store, serveEVM(t, h, faults{}), serveEVM(t, h, faults{}))
	o.Registerer, o.Follow = r, true
	x, err := indexer.New(o)
	must(t, err)
	if got, state := scrape(t, r); state != "waiting" || len(got) != 1 {
		t.Errorf("before its turn: state %s, metrics %v, want waiting alone", state, got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- x.Run(ctx) }()
	await(t, store, h.head())
	var got map[string]float64
	var state string
	eventually(t, "the counters, which follow the store", func() bool {
		got, state = scrape(t, r)
		return got["tipcache_indexer_cursor_block"] == float64(h.head())
	})
	if state != "running" || got["tipcache_indexer_head_block"] != float64(h.head()) || got["tipcache_indexer_lag_blocks"] != 0 ||
		got["tipcache_indexer_ignored_total"] == 0 || got["tipcache_indexer_logs_total"] <= got["tipcache_indexer_ignored_total"] {
		t.Errorf("state %s, metrics %v, want running at head %d without lag, and some logs ignored", state, got, h.head())
	}
	h.mu.Lock()
	h.salt = "anew"
	h.mu.Unlock()
	h.grow(1)
	eventually(t, "that the chain is another one", func() bool {
		_, state = scrape(t, r)
		return state == "diverged"
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want %v", err, context.Canceled)
	}
	got, state = scrape(t, r)
	if _, told := got["tipcache_indexer_lag_seconds"]; state != "diverged" || told || got["tipcache_indexer_logs_total"] == 0 {
		t.Errorf("at its end: state %s, metrics %v, want diverged, logs and no lag", state, got)
	}
}

func TestUnknownChainHasNoMetrics(t *testing.T) {
	evm, r := serveEVM(t, newHistory(11), faults{status: http.StatusTooManyRequests}), prometheus.NewRegistry()
	o := quick(open(t, memory(t)), evm)
	o.Registerer, o.Grace = r, time.Hour
	x, err := indexer.New(o)
	must(t, err)
	ended := make(chan error)
	go func() { ended <- x.Run(t.Context()) }()
	eventually(t, "that it runs", func() bool { return x.Status().Running })
	got, state := scrape(t, r)
	for _, name := range []string{"cursor_block", "head_block", "lag_blocks", "lag_seconds"} {
		if _, told := got["tipcache_indexer_"+name]; told || state != "unverified" {
			t.Errorf("state %s, metrics %v, want unverified without %s", state, got, name)
		}
	}
	evm.set(faults{})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestStateNamesReasonIfNoClientIsUsable(t *testing.T) {
	h := newHistory(11)
	h.grow(20)
	for _, begun := range []bool{false, true} { // a store without a block, and one with some
		for want, f := range map[string]faults{
			"forbidden": {status: http.StatusUnauthorized}, "other_chain": {chainID: 1}, "unreachable": {status: http.StatusBadGateway},
		} {
			evm, store, r := serveEVM(t, h, faults{}), open(t, memory(t)), prometheus.NewRegistry()
			if begun {
				run(t, quick(store, evm))
			}
			evm.set(f)
			o := quick(store, evm)
			o.Registerer, o.Follow, o.Grace = r, true, 20*time.Millisecond
			x := follow(t, o)
			eventually(t, "the state "+want, func() bool {
				_, state := scrape(t, r)
				return state == want
			})
			if s := x.Status(); s.Err == nil || s.Ended || !s.Running {
				t.Errorf("%s: %+v", want, s)
			}
		}
	}
}

func TestSingleClientIsUnverified(t *testing.T) {
	h := newHistory(11)
	h.grow(100)
	away := serveEVM(t, h, faults{status: http.StatusBadGateway})
	for name, evms := range map[string][]*fakeEVM{"one client": {serveEVM(t, h, faults{})}, "another that is away": {serveEVM(t, h, faults{}), away}} {
		store, r := open(t, memory(t)), prometheus.NewRegistry()
		o := quick(store, evms...)
		o.Registerer, o.Follow = r, true
		x := follow(t, o)
		await(t, store, h.head())
		eventually(t, "the state of it", func() bool { return x.Status().Cursor.Block == h.head() })
		if _, state := scrape(t, r); state != "unverified" {
			t.Errorf("%s: state = %s, want unverified", name, state)
		}
	}
}

// fullStore takes nothing over.
type fullStore struct{ *collections.Store }

func (fullStore) Apply(context.Context, ledger.Cursor, ledger.Tally) error {
	return errors.New("database or disk is full")
}

func TestMetricsOfStoppedIndexerAreNaN(t *testing.T) {
	h := newHistory(11)
	h.grow(100)
	reset := newHistory(11)
	reset.salt = "anew"
	reset.grow(100)
	filled := open(t, memory(t))
	run(t, quick(filled, serveEVM(t, h, faults{})))
	for state, store := range map[string]indexer.Store{"diverged": filled, "failed": fullStore{open(t, memory(t))}} {
		evm, r := serveEVM(t, h, faults{}), prometheus.NewRegistry()
		if state == "diverged" {
			evm = serveEVM(t, reset, faults{})
		}
		o := quick(store, evm)
		o.Registerer, o.Follow = r, true
		x := follow(t, o)
		eventually(t, "the state "+state, func() bool { return x.Status().State() == state })
		if left, known := x.Status().Left(); known {
			t.Errorf("%s: %d blocks are left, want it unknown", state, left)
		}
		got, _ := scrape(t, r)
		for _, name := range []string{"tipcache_indexer_lag_blocks", "tipcache_indexer_head_block"} {
			if value, told := got[name]; told && !math.IsNaN(value) {
				t.Errorf("%s: %s = %v, want NaN or none", state, name, value)
			}
		}
		if value := got["tipcache_indexer_cursor_block"]; state == "failed" && !math.IsNaN(value) {
			t.Errorf("before the first block: cursor_block = %v, want NaN", value)
		}
	}
}
