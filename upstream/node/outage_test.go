package node

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// Ways in which a server, or a proxy in front of it, fails every request.
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

// probeSoon lets the next probe be sent as if no request had reached the only node for a while.
func probeSoon(p *Pool) { p.endpoints()[0].update(func(v *view) { v.answered = time.Time{} }) }

func TestServerThatFailsEveryRequestIsDegraded(t *testing.T) {
	t.Parallel()
	for how, front := range broken {
		for server, rpc := range map[string]bool{"node ": false, "RPC of node ": true} {
			t.Run(server+how, func(t *testing.T) {
				t.Parallel()
				n := newFakeNode(t, 100)
				p, log := logged(t, Options{retry: quickProbes, BlockInterval: time.Minute, MaxBlockAge: time.Hour}, n)
				expect.Eventually(t, "the node to be fit", func() bool { return p.Ready() == nil })
				n.change(func() { n.front, n.frontRPC = front, rpc })
				n.drop() // what follows the chain asks again
				probeSoon(p)
				name := server + n.address
				expect.Eventually(t, "an outage of "+name, func() bool {
					return slices.Equal(slices.Collect(maps.Keys(p.Outages().Causes())), []string{name})
				})
				if err := p.Ready(); (err == nil) != rpc || err != nil && !strings.Contains(err.Error(), "has been failing for") {
					t.Errorf("ready: %v, want nil %t, or how long it has been failing", err, rpc)
				}
				n.change(func() { n.front = nil })
				expect.Eventually(t, "the end of the outage", func() bool { return len(p.Outages().Causes()) == 0 && p.Ready() == nil })
				wantOneLine(t, log, `msg="upstream unreachable" origin="`+name+`"`)
				wantOneLine(t, log, `msg="upstream reachable again" origin="`+name+`"`)
			})
		}
	}
}

func TestMissingGRPCServerIsDegraded(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	n.grpc = porttest.Address(t)
	p, _ := logged(t, Options{BlockInterval: time.Minute, MaxBlockAge: time.Hour}, n)
	name := "gRPC of node " + n.address
	expect.Eventually(t, "an outage of "+name, func() bool { return strings.Contains(p.Outages().Causes()[name], "connection refused") })
	if err := p.Ready(); err != nil || len(p.Outages().Causes()) != 1 {
		t.Errorf("ready: %v, outages %v; want gRPC alone to be degraded", err, p.Outages().Causes())
	}
}

func TestNodeThatRefusesToReadTheNewestBlockIsDegraded(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute, MaxBlockAge: time.Hour}, n)
	expect.Eventually(t, "the node to be fit", func() bool { return p.Ready() == nil })
	n.change(func() { n.lowest = 200 })
	name := "node " + n.address
	expect.Eventually(t, "an outage of "+name, func() bool {
		_, _ = p.Fetch(within(t, time.Second), Request{Path: "/x", Height: AtTip}) // half of it is spent on waiting for the block
		return strings.Contains(p.Outages().Causes()[name], "refuses to read the newest block")
	})
	n.change(func() { n.lowest = 0 })
	expect.Eventually(t, "the end of the outage", func() bool { return len(p.Outages().Causes()) == 0 && p.Ready() == nil })
}

func TestFailureOfOneRequestIsFollowedByAProbe(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{retry: 20 * time.Millisecond, BlockInterval: time.Minute, MaxBlockAge: time.Hour}, n)
	expect.Eventually(t, "the node to be fit", func() bool { return p.Ready() == nil })
	n.change(func() { n.rest = broken["drops connections"] }) // but not the probe
	for range 5 {
		if _, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"}); err == nil {
			t.Fatal("Fetch succeeded, want an error")
		}
	}
	outage := p.Outages()[0]
	expect.Eventually(t, "a probe to complete", func() bool { return !outage.Failing() })
}
