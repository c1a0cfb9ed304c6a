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
	"github.com/tipcache/tipcache/upstream/expect"
)

// scrape returns the sum of the samples of each metric, and the state.
func scrape(t *testing.T, r *prometheus.Registry) (samples map[string]float64, state string) {
	t.Helper()
	families := expect.Value(r.Gather())(t)
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
	h := newHistory(11, 300)
	store, r := openMemory(t), prometheus.NewRegistry()
	o := quick(store, serveEVM(t, h, faults{}), serveEVM(t, h, faults{}))
	o.Registerer, o.Follow = r, true
	x := expect.Value(indexer.New(o))(t)
	got, state := scrape(t, r)
	if state != "waiting" || len(got) != 1 {
		t.Errorf("before Run: state %s, metrics %v, want only the state waiting", state, got)
	}
	stop := start(t, x)
	eventually(t, "the head in the metric of the cursor", func() bool {
		got, state = scrape(t, r)
		return got["tipcache_indexer_cursor_block"] == float64(h.head())
	})
	if state != "running" || got["tipcache_indexer_head_block"] != float64(h.head()) || got["tipcache_indexer_lag_blocks"] != 0 ||
		got["tipcache_indexer_ignored_total"] == 0 || got["tipcache_indexer_logs_total"] <= got["tipcache_indexer_ignored_total"] {
		t.Errorf("state %s, metrics %v, want running at head %d without lag, and some logs ignored", state, got, h.head())
	}
	h.mu.Lock()
	h.salt = "reset"
	h.mu.Unlock()
	h.grow(1)
	eventually(t, "the state diverged", func() bool {
		_, state = scrape(t, r)
		return state == "diverged"
	})
	stop()
	eventually(t, "the state waiting after Run", func() bool {
		got, state = scrape(t, r)
		return state == "waiting"
	})
	if _, exists := got["tipcache_indexer_lag_seconds"]; exists || got["tipcache_indexer_logs_total"] == 0 {
		t.Errorf("after Run: metrics %v, want logs and no lag", got)
	}
}

func TestUnknownChainHasNoMetrics(t *testing.T) {
	evm, r := serveEVM(t, newHistory(11, 0), faults{status: http.StatusTooManyRequests}), prometheus.NewRegistry()
	o := quick(openMemory(t), evm)
	o.Registerer, o.Grace = r, time.Hour
	x := expect.Value(indexer.New(o))(t)
	ended := make(chan error)
	go func() { ended <- x.Run(t.Context()) }()
	eventually(t, "a running indexer", func() bool { return x.Status().Running })
	got, state := scrape(t, r)
	for _, name := range []string{"cursor_block", "head_block", "lag_blocks", "lag_seconds"} {
		if _, exists := got["tipcache_indexer_"+name]; exists || state != "unverified" {
			t.Errorf("state %s, metrics %v, want unverified without %s", state, got, name)
		}
	}
	evm.set(faults{})
	expect.NoError(t, <-ended)
}

func TestStateNamesReasonIfNoClientIsUsable(t *testing.T) {
	h := newHistory(11, 20)
	for _, filled := range []bool{false, true} {
		for want, f := range map[string]faults{
			"forbidden": {status: http.StatusUnauthorized}, "other_chain": {chainID: 1}, "unreachable": {status: http.StatusBadGateway},
		} {
			evm, store, r := serveEVM(t, h, faults{}), openMemory(t), prometheus.NewRegistry()
			if filled {
				run(t, quick(store, evm))
			}
			evm.set(f)
			o := quick(store, evm)
			o.Registerer, o.Grace = r, 20*time.Millisecond
			x, _ := follow(t, o)
			eventually(t, "the state "+want, func() bool {
				_, state := scrape(t, r)
				return state == want
			})
			if s := x.Status(); s.Err == nil || s.Ended || !s.Running {
				t.Errorf("%s: status = %+v, want running with an error", want, s)
			}
		}
	}
}

func TestSingleClientIsUnverified(t *testing.T) {
	h := newHistory(11, 100)
	down := serveEVM(t, h, faults{status: http.StatusBadGateway})
	for name, evms := range map[string][]*fakeEVM{"one client": {serveEVM(t, h, faults{})}, "the other is down": {serveEVM(t, h, faults{}), down}} {
		r := prometheus.NewRegistry()
		o := quick(openMemory(t), evms...)
		o.Registerer = r
		x, _ := follow(t, o)
		eventually(t, "the head in the status", func() bool { return x.Status().Cursor.Block == h.head() })
		_, state := scrape(t, r)
		expect.Equal(t, state, "unverified", "state, %s", name)
	}
}

// fullStore fails to apply tallies.
type fullStore struct{ *collections.Store }

func (fullStore) Apply(context.Context, ledger.Cursor, ledger.Tally) error {
	return errors.New("database or disk is full")
}

func TestMetricsOfStoppedIndexerAreNaN(t *testing.T) {
	h := newHistory(11, 100)
	reset := newHistory(11, 100)
	reset.salt = "reset"
	filled := openMemory(t)
	run(t, quick(filled, serveEVM(t, h, faults{})))
	for state, store := range map[string]indexer.Store{"diverged": filled, "failed": fullStore{openMemory(t)}} {
		evm, r := serveEVM(t, h, faults{}), prometheus.NewRegistry()
		if state == "diverged" {
			evm = serveEVM(t, reset, faults{})
		}
		o := quick(store, evm)
		o.Registerer = r
		x, _ := follow(t, o)
		eventually(t, "the state "+state, func() bool { return x.Status().State() == state })
		if left, known := x.Status().Left(); known {
			t.Errorf("%s: Left = %d, true, want false", state, left)
		}
		got, _ := scrape(t, r)
		for _, name := range []string{"tipcache_indexer_lag_blocks", "tipcache_indexer_head_block"} {
			if value, exists := got[name]; exists && !math.IsNaN(value) {
				t.Errorf("%s: %s = %v, want NaN or no sample", state, name, value)
			}
		}
		if value := got["tipcache_indexer_cursor_block"]; state == "failed" && !math.IsNaN(value) {
			t.Errorf("before the first block: cursor_block = %v, want NaN", value)
		}
	}
}
