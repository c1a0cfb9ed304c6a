package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestNewRejectsInvalidOptions(t *testing.T) {
	tests := []struct {
		name      string
		endpoints []Endpoint
		want      string
	}{
		{"invalid URL", []Endpoint{{REST: "http://user:secret@[::1"}}, "endpoint 1: REST address: not a URL"},
		{"another scheme", []Endpoint{{REST: "ftp://node"}}, "not an http or https URL"},
		{"no host", []Endpoint{{REST: "127.0.0.1:1317"}}, "endpoint 1"},
		{"query", []Endpoint{{REST: "http://node?x=1"}}, "no query"},
		{"invalid CometBFT address", []Endpoint{{REST: "http://node"}, {REST: "http://node", Comet: "node"}}, "endpoint 2: CometBFT address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(Options{Endpoints: tt.endpoints})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("New = %v, want %q without the password", err, tt.want)
			}
		})
	}
}

func TestHealthOfEachEndpoint(t *testing.T) {
	ahead, behind := newFakeNode(t, 105), newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, ahead, behind)
	expect.Eventually(t, "both subscriptions", func() bool { h := p.Health(); return h[0].Connected && h[1].Connected })
	waitForProbes(t, p)
	got := p.Health()
	for i := range got {
		if age := got[i].BlockAge; age <= 0 || age > time.Minute {
			t.Errorf("block age = %s, want up to a minute", age)
		}
		got[i].BlockAge = 0
	}
	want := []Health{
		{Name: ahead.address, ChainID: "story-1", Answering: true, Current: true, Height: 105, Connected: true, Breaker: "closed", RPC: "ok", GRPC: "off"},
		{Name: behind.address, ChainID: "story-1", Answering: true, Current: true, Height: 100, Connected: true, Breaker: "closed", RPC: "ok", GRPC: "off"},
	}
	expect.NoDiff(t, got, want, "health")
	expect.NoError(t, p.Ready())
}

func TestNodeBehindTheTipIsProbed(t *testing.T) {
	t.Parallel()
	ahead, behind := newFakeNode(t, 1000), newFakeNode(t, 900)
	p := run(t, Options{Settings: Settings{RollbackAfter: time.Hour}, BlockInterval: time.Minute}, ahead, behind)
	wantTip(t, p, 1000)
	expect.EventuallyEqual(t, "the height of the node behind", func() int64 { return p.Health()[1].Height }, 900)
	p.endpoints()[1].update(func(v *view) { v.answered = time.Time{} }) // as after a restart
	expect.Eventually(t, "an answer of the node behind", func() bool { return p.Health()[1].Answering })
}

func TestReadyNamesTheReason(t *testing.T) {
	healthy := func(*fakeNode) {}
	tests := []struct {
		name         string
		first, other func(*fakeNode)
		want         []string // parts of the error; nil means ready
	}{
		{"both are fit", healthy, healthy, nil},
		{"one of two is enough", func(n *fakeNode) { n.chain = "other-1" }, healthy, nil},
		{"no header for long and catching up",
			func(n *fakeNode) { n.blockTime = time.Now().Add(-time.Hour) },
			func(n *fakeNode) { n.catchingUp = true },
			[]string{"has no block newer than 1h0m0s", "is catching up"}},
		{"another chain and stopped",
			func(n *fakeNode) { n.chain = "other-1" },
			func(n *fakeNode) { n.stop() },
			[]string{`serves chain "other-1" instead of "story-1"`, "does not answer"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first, other := newFakeNode(t, 100), newFakeNode(t, 100)
			tt.first(first)
			tt.other(other)
			p := run(t, Options{Settings: Settings{MaxBlockAge: time.Minute}, ChainID: "story-1"}, first, other)
			expect.Eventually(t, "Ready to return the reason", func() bool {
				err := p.Ready()
				if tt.want == nil || err == nil {
					return err == nil && tt.want == nil
				}
				for _, want := range tt.want {
					if !strings.Contains(err.Error(), want) {
						return false
					}
				}
				return true
			})
		})
	}
}

func TestEndpointNamesAreUnique(t *testing.T) {
	p := newPool(t, Options{Endpoints: []Endpoint{{REST: "http://node:1/a"}, {REST: "http://node:1/b"}}})
	h := p.Health()
	expect.NoDiff(t, []string{h[0].Name, h[1].Name}, []string{"node:1", "node:1#2"}, "names")
}

// gather returns the values of counters and gauges and the counts of histograms. Labels except the node's are part of the
// name.
func gather(t *testing.T, registry *prometheus.Registry, node string) map[string]float64 {
	t.Helper()
	all := make(map[string]float64)
	for _, family := range expect.Value(registry.Gather())(t) {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				if label.GetValue() != node {
					name += " " + label.GetValue()
				}
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func TestNodeIsNotAnsweringDuringAnOutage(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute, Registerer: registry}, n)
	waitForProbes(t, p)
	n.change(func() { n.front = broken["drops connections"] })
	p.endpoints()[0].restServer.outage.Begin(errors.New("reset"))
	expect.Equal(t, gather(t, registry, n.address)["tipcache_node_answering"], 0, "tipcache_node_answering")
}

func TestMetricsOfEachNode(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute, Registerer: registry}, n)
	waitForProbes(t, p)
	mustFetch(t, p, Request{Height: AtTip, Cost: Scan})
	mustFetch(t, p, Request{Height: 1000})
	got := gather(t, registry, n.address)
	read := got["tipcache_node_answers_total ok"] // the scan, and the probe, the proof of the first height, or both
	if read < 2 || read > 3 {
		t.Errorf("answers = %v, want 2 or 3", read)
	}
	want := map[string]float64{
		"tipcache_node_answers_total ok":               read,
		"tipcache_node_epochs_total":                   0,
		"tipcache_node_height":                         100,
		"tipcache_node_lowest_height":                  0,
		"tipcache_node_page_keys_mixed":                0,
		"tipcache_node_source_aside":                   0,
		"tipcache_node_source_late":                    0,
		"tipcache_node_tip_out_of_reach":               0,
		"tipcache_node_tip_unconfirmed":                0,
		"tipcache_node_answers_total future_height":    1,
		"tipcache_node_request_duration_seconds cheap": read,
		"tipcache_node_request_duration_seconds scan":  1,
		"tipcache_node_tip_height":                     100,
		"tipcache_node_tip_known":                      1,
		"tipcache_node_answering":                      1,
		"tipcache_node_breaker_state":                  0,
		"tipcache_node_rpc_answering":                  1,
		"tipcache_node_shed_total":                     0,
		"tipcache_node_websocket_reconnects_total":     0,
		"tipcache_node_block_interval_seconds":         60,
		"tipcache_node_lag_blocks":                     0,
		"tipcache_node_in_flight":                      0,
		"tipcache_node_limit":                          4,
		"tipcache_node_queue_length":                   0,
		"tipcache_node_wrong_chain":                    0,
	}
	if age := got["tipcache_node_block_age_seconds"]; age <= 0 || age > 60 {
		t.Errorf("block age = %v s, want up to 60", age)
	}
	if wait := got["tipcache_node_expected_wait_seconds"]; wait <= 0 || wait > 60 {
		t.Errorf("expected wait = %v s, want up to 60", wait)
	}
	delete(got, "tipcache_node_block_age_seconds")
	delete(got, "tipcache_node_expected_wait_seconds")
	expect.NoDiff(t, got, want, "metrics")
	if _, err := New(Options{Endpoints: []Endpoint{n.endpoint()}, Registerer: registry}); err == nil {
		t.Error("New with the registry of another pool = nil, want an error")
	}
	_ = p.Close()
	if families, err := registry.Gather(); err != nil || len(families) > 0 {
		t.Errorf("metrics after Close = %d, %v; want 0", len(families), err)
	}
}

func TestWithoutNodesNoMetricSaysThatTheTipIsUnknown(t *testing.T) {
	registry := prometheus.NewRegistry()
	p := expect.Value(New(Options{Registerer: registry}))(t)
	defer p.Close()
	for _, family := range expect.Value(registry.Gather())(t) {
		if family.GetName() == "tipcache_node_tip_known" {
			t.Errorf("metric = %v, want none: it raises an alert", family)
		}
	}
}
