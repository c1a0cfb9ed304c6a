package indexer_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/indexer"
)

// scrape returns the samples by name, those of a name added up, and the state.
func scrape(t *testing.T, r *prometheus.Registry) (samples map[string]float64, state string) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
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

func TestMetricsTellWhereItIs(t *testing.T) {
	h := newHistory(11)
	h.grow(300)
	evm, store, r := serveEVM(t, h, faults{}), open(t, memory(t)), prometheus.NewRegistry()
	o := quick(store, evm)
	o.Registerer, o.Follow = r, true
	x, err := indexer.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if got, state := scrape(t, r); state != "waiting" || len(got) != 1 {
		t.Errorf("before its turn: %s, %v", state, got)
	}
	ended := make(chan error)
	go func() { ended <- x.Run(t.Context()) }()
	await(t, store, h.head())
	var got map[string]float64
	var state string
	eventually(t, "the counters, which follow the store", func() bool {
		got, state = scrape(t, r)
		return got["tipcache_indexer_cursor_block"] == float64(h.head())
	})
	if state != "running" || got["tipcache_indexer_head_block"] != float64(h.head()) || got["tipcache_indexer_lag_blocks"] != 0 ||
		got["tipcache_indexer_ignored_total"] == 0 || got["tipcache_indexer_logs_total"] <= got["tipcache_indexer_ignored_total"] {
		t.Errorf("%s, %v", state, got)
	}
	h.mu.Lock()
	h.salt = "anew"
	h.mu.Unlock()
	h.grow(1)
	if err := <-ended; !errors.Is(err, indexer.ErrDiverged) {
		t.Errorf("Run: %v", err)
	}
	got, state = scrape(t, r)
	if _, told := got["tipcache_indexer_lag_seconds"]; state != "diverged" || told || got["tipcache_indexer_logs_total"] == 0 {
		t.Errorf("at its end: %s, %v", state, got)
	}
}

func TestMetricsDoNotTellOfAChainThatWasNotHeardOf(t *testing.T) {
	evm, r := serveEVM(t, newHistory(11), faults{status: http.StatusTooManyRequests}), prometheus.NewRegistry()
	o := quick(open(t, memory(t)), evm)
	o.Registerer = r
	x, err := indexer.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- x.Run(t.Context()) }()
	eventually(t, "that it runs", func() bool { return x.Status().Running })
	got, state := scrape(t, r)
	for _, name := range []string{"cursor_block", "head_block", "lag_blocks", "lag_seconds"} {
		if _, told := got["tipcache_indexer_"+name]; told || state != "running" {
			t.Errorf("%s: %v", state, got)
		}
	}
	evm.set(faults{})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
