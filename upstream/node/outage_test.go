package node

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// broken has handlers that fail every request.
var broken = map[string]http.HandlerFunc{
	"drops connections": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"answers 429":       func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "slow down", http.StatusTooManyRequests) },
	"answers HTML":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>sign in</html>")) },
	"answers a gateway's JSON-RPC error": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"rate limit exceeded"}}`))
	},
	"cannot read its state": func(w http.ResponseWriter, _ *http.Request) { refuse(w, "runtime error: invalid memory address") },
}

// quickProbes lets an outage begin before five failed probes open the breaker.
const quickProbes = 800 * time.Millisecond

// fail replaces the responses of all nodes of p, and makes the pool send requests to them at once.
func fail(p *Pool, nodes []*fakeNode, rpc bool, fronts []http.HandlerFunc) {
	for i, n := range nodes {
		n.change(func() { n.front, n.frontRPC = fronts[i], rpc })
		n.drop() // the follower of the chain sends requests again
		p.endpoints()[i].update(func(v *view) { v.answered = time.Time{} })
	}
}

func TestServerThatFailsEveryRequestIsDegraded(t *testing.T) {
	t.Parallel()
	for server, rpc := range map[string]bool{"node ": false, "RPC of node ": true} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			var nodes []*fakeNode
			var fronts []http.HandlerFunc
			var names []string
			for how, front := range broken {
				n := newFakeNode(t, 100)
				nodes, fronts, names = append(nodes, n), append(fronts, front), append(names, server+n.address)
				t.Log(n.address, how)
			}
			slices.Sort(names)
			p, log := runWithLog(t, Options{Settings: Settings{MaxBlockAge: time.Hour}, retry: quickProbes, BlockInterval: time.Minute}, nodes...)
			expect.Eventually(t, "the nodes to be fit", func() bool {
				return !slices.ContainsFunc(p.Health(), func(h Health) bool { return h.Unfit != "" })
			})
			fail(p, nodes, rpc, fronts)
			expect.Eventually(t, "an outage of each server", func() bool {
				return slices.Equal(slices.Sorted(maps.Keys(p.Outages().Causes())), names)
			})
			for _, h := range p.Health() {
				if (h.Unfit == "") != rpc || h.Unfit != "" && !strings.Contains(h.Unfit, "has been failing for") {
					t.Errorf("Unfit of %s = %q, want it empty if only the RPC fails (%t), and otherwise how long it has been failing", h.Name, h.Unfit, rpc)
				}
			}
			for _, n := range nodes {
				n.change(func() { n.front = nil })
			}
			expect.Eventually(t, "the end of the outages", func() bool { return len(p.Outages().Causes()) == 0 && p.Ready() == nil })
			for _, name := range names {
				wantOneLine(t, log, `msg="upstream unreachable" origin="`+name+`"`)
				wantOneLine(t, log, `msg="upstream reachable again" origin="`+name+`"`)
			}
		})
	}
}

func TestMissingGRPCServerIsDegraded(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	n.grpc = porttest.Address(t)
	p, _ := runWithLog(t, Options{Settings: Settings{MaxBlockAge: time.Hour}, BlockInterval: time.Minute}, n)
	name := "gRPC of node " + n.address
	expect.Eventually(t, "an outage of "+name, func() bool { return strings.Contains(p.Outages().Causes()[name], "connection refused") })
	if err := p.Ready(); err != nil || len(p.Outages().Causes()) != 1 {
		t.Errorf("Ready = %v with outages %v, want only gRPC degraded", err, p.Outages().Causes())
	}
}

func TestNodeThatRefusesToReadTheNewestBlockIsDegraded(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{Settings: Settings{MaxBlockAge: time.Hour}, BlockInterval: time.Minute}, n)
	expect.EventuallyEqual(t, "the node to be fit", p.Ready, nil)
	n.change(func() { n.lowest = 200 })
	name := "node " + n.address
	expect.Eventually(t, "an outage of "+name, func() bool {
		_, _ = p.Fetch(within(t, time.Second), Request{Path: "/x", Height: AtTip}) // Fetch spends half of it waiting for the block
		return strings.Contains(p.Outages().Causes()[name], "refuses to read the newest block")
	})
	n.change(func() { n.lowest = 0 })
	expect.Eventually(t, "the end of the outage", func() bool { return len(p.Outages().Causes()) == 0 && p.Ready() == nil })
}

func TestFailureOfOneRequestIsFollowedByAProbe(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{Settings: Settings{MaxBlockAge: time.Hour}, retry: 20 * time.Millisecond, BlockInterval: time.Minute}, n)
	expect.EventuallyEqual(t, "the node to be fit", p.Ready, nil)
	n.change(func() { n.rest = broken["drops connections"] }) // but probes succeed
	for range 5 {
		if _, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"}); err == nil {
			t.Fatal("Fetch succeeded, want an error")
		}
	}
	outage := p.Outages()[0]
	expect.Eventually(t, "a probe to complete", func() bool { return !outage.Failing() })
}

func TestHangingRPCRanksBehindAnother(t *testing.T) {
	t.Parallel()
	hanging, well := newFakeNode(t, 100), newFakeNode(t, 100)
	well.rest = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	}
	var hung atomic.Int32
	hanging.rest = func(w http.ResponseWriter, r *http.Request) { // but reads at the REST server and polls succeed
		hung.Add(1)
		stall(w, r)
	}
	p := run(t, Options{Settings: Settings{Timeout: 3 * time.Second}, BlockInterval: time.Minute}, hanging, well)
	waitForProbes(t, p)
	expect.EventuallyEqual(t, "both heights", func() [2]int64 { h := p.Health(); return [...]int64{h[0].Height, h[1].Height} }, [...]int64{100, 100})
	call := &Call{Method: "tx", Params: func(int64) json.RawMessage { return json.RawMessage(`{}`) }}
	fetch := func() {
		if _, err := p.Fetch(within(t, time.Minute), Request{Height: AtTip, Unpinned: true, Call: call}); err != nil {
			t.Errorf("Fetch = %v, want an answer of the other node", err)
		}
	}
	start := time.Now()
	expect.Eventually(t, "a call of the hanging node", func() bool { // on a busy machine it may seem slower
		prefer(p, 0)
		fetch()
		return hung.Load() > 0
	})
	for range 10 {
		fetch()
	}
	if got, most := int(hung.Load()), 1+int(time.Since(start)/penaltyTime); got > most {
		t.Errorf("calls of the hanging node = %d within %s, want at most %d", got, time.Since(start), most)
	}
}

func TestTransactionIsSentToAnotherNodeWhileTheRPCOfOneIsDown(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	down, well := newFakeNode(t, 100), newFakeNode(t, 100)
	well.rest = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	}
	p := run(t, Options{
		Endpoints:     []Endpoint{{REST: "http://" + down.address, Comet: "tcp://" + porttest.Address(t)}},
		BlockInterval: time.Minute, Registerer: registry,
	}, well)
	waitForProbes(t, p)
	expect.EventuallyEqual(t, "both heights", func() [2]int64 { h := p.Health(); return [...]int64{h[0].Height, h[1].Height} }, [...]int64{100, 100})
	params := func(int64) json.RawMessage { return json.RawMessage(`{}`) }
	r := Request{Height: AtTip, Unpinned: true, Call: &Call{Method: "broadcast_tx_sync", Params: params, Write: true}}
	const refused = "tipcache_node_answers_total unreachable"
	for range maxFailures {
		prefer(p, 0)
		if _, err := p.Fetch(within(t, time.Minute), r); err != nil {
			t.Fatalf("Fetch = %v, want an answer of the other node", err)
		}
	}
	expect.Equal(t, gather(t, registry, down.address)[refused], 0, "calls refused by the node whose RPC is known to be down")
	for range 2 * maxFailures { // the breaker opens
		prefer(p, 0)
		p.endpoints()[1].serverOf(r).failed.Store(time.Now().UnixNano())
		if _, err := p.Fetch(within(t, time.Minute), r); err != nil {
			t.Fatalf("Fetch after a refused connection = %v, want an answer of the other node", err)
		}
	}
	if gather(t, registry, down.address)[refused] == 0 {
		t.Error("no call was refused, want some")
	}
}
