package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

func TestReplacedNodesFailNoRequest(t *testing.T) {
	one, two, three := newFakeNode(t, 100), newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{}, one)
	wantTip(t, p, 100)
	ctx, stop := context.WithCancel(t.Context())
	var readers errgroup.Group
	var reads atomic.Int64
	for range 4 {
		readers.Go(func() error {
			for ctx.Err() == nil {
				if _, err := p.Fetch(t.Context(), Request{Path: "/staking/pool", Height: AtTip}); err != nil {
					return err
				}
				reads.Add(1)
			}
			return nil
		})
	}
	for _, nodes := range [][]*fakeNode{{one, two}, {two}, {three}, {three, one}, {one}} {
		var endpoints []Endpoint
		for _, n := range nodes {
			endpoints = append(endpoints, n.endpoint())
		}
		expect.NoError(t, p.SetEndpoints(endpoints))
		before := reads.Load()
		expect.EventuallyAtLeast(t, "more reads", reads.Load, before+21)
		for _, h := range p.Health() {
			if !slices.ContainsFunc(nodes, func(n *fakeNode) bool { return n.address == h.Name }) {
				t.Errorf("node %s in Health, want only the configured nodes", h.Name)
			}
		}
	}
	stop()
	if err := readers.Wait(); err != nil {
		t.Errorf("Fetch = %v, want every request answered", err)
	}
	expect.Eventually(t, "the end of the subscriptions to removed nodes", func() bool {
		open := 0
		for _, n := range []*fakeNode{two, three} {
			n.change(func() { open += len(n.sockets) })
		}
		return open == 0
	})
	one.commit(101)
	wantTip(t, p, 101)
}

func TestClaimOfARemovedNodeIsForgotten(t *testing.T) {
	high, low := newFakeNode(t, 105), newFakeNode(t, 100)
	p := run(t, Options{}, low, high)
	wantTip(t, p, 105)
	expect.NoError(t, p.SetEndpoints([]Endpoint{low.endpoint()}))
	for _, h := range p.Health() {
		if h.Name != low.address || h.Height != 100 {
			t.Errorf("health = %+v, want %s at height 100", h, low.address)
		}
	}
	low.commit(106)
	wantTip(t, p, 106)
}

func TestSlowCallOfARemovedNodeLeavesNoMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	n, other := newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{Registerer: registry, BlockInterval: time.Minute}, n)
	wantTip(t, p, 100)
	arrived, answer := make(chan struct{}), make(chan struct{})
	n.change(func() {
		n.rest = func(w http.ResponseWriter, _ *http.Request) {
			close(arrived)
			<-answer
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
		}
	})
	call := &Call{Method: "broadcast_tx_commit", Params: func(int64) json.RawMessage { return json.RawMessage(`{}`) }, Slow: true}
	var calls sync.WaitGroup
	calls.Go(func() {
		if _, err := p.Fetch(within(t, time.Minute), Request{Height: AtTip, Unpinned: true, Call: call}); err != nil {
			t.Errorf("Fetch = %v, want an answer of the removed node", err)
		}
	})
	<-arrived
	expect.NoError(t, p.SetEndpoints([]Endpoint{other.endpoint()}))
	retired := make(chan struct{})
	go func() { p.retiring.Wait(); close(retired) }()
	select {
	case <-retired:
		t.Error("the node is retired, want it to wait for the call")
	case <-time.After(100 * time.Millisecond):
	}
	close(answer)
	calls.Wait()
	<-retired
	for name := range gather(t, registry, other.address) {
		if strings.Contains(name, n.address) {
			t.Errorf("metrics contain %s, want none of the removed node", name)
		}
	}
}

func TestInvalidNodeChangesNothing(t *testing.T) {
	n, other := newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{}, n)
	wantTip(t, p, 100)
	if err := p.SetEndpoints([]Endpoint{other.endpoint(), {REST: "ftp://x"}}); err == nil || !strings.Contains(err.Error(), "endpoint 2: REST address") {
		t.Errorf("SetEndpoints = %v, want an error for endpoint 2", err)
	}
	if a := mustFetch(t, p, Request{Height: AtTip}); !isFrom(a, n) {
		t.Errorf("answer = %s, want one of the previous node", a.Body)
	}
}

func TestNodeOfLowerPriorityIsReadOnlyWhileNoBetterOneCanAnswer(t *testing.T) {
	own, paid := newFakeNode(t, 100), newFakeNode(t, 101)
	second := paid.endpoint()
	second.Priority = 1
	p := runPool(t, Options{Endpoints: []Endpoint{second, own.endpoint()}, BlockInterval: time.Minute})
	wantTip(t, p, 101)
	expect.Eventually(t, "both subscriptions", func() bool { return p.Health()[0].Connected && p.Health()[1].Connected })
	done := make(chan *Answer)
	go func() { done <- mustFetch(t, p, Request{Height: AtTip}) }()
	time.Sleep(20 * time.Millisecond) // the request waits, though the other node has the block
	own.commit(101)
	if a := <-done; !isFrom(a, own) {
		t.Errorf("answer = %s, want one of the preferred node", a.Body)
	}
	for range 10 {
		if a := mustFetch(t, p, Request{Height: AtTip}); !isFrom(a, own) {
			t.Errorf("answer = %s, want one of the preferred node", a.Body)
		}
	}
	if got := paid.requestedHeights(); len(got) > 0 {
		t.Errorf("heights %q read at the node of lower priority, want none", got)
	}
	own.stop()
	if a := mustFetch(t, p, Request{Height: AtTip}); !isFrom(a, paid) {
		t.Errorf("answer = %s, want one of the node that still responds", a.Body)
	}
}

func TestHeadersOfANodeGoWithEveryRequestAndAreHidden(t *testing.T) {
	n := newFakeNode(t, 100)
	var without atomic.Int64
	front := n.server.Config.Handler
	n.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != "provider-secret" {
			without.Add(1)
		}
		front.ServeHTTP(w, r)
	})
	e := n.endpoint()
	e.Headers = http.Header{"X-Key": {"provider-secret"}}
	p := runPool(t, Options{Endpoints: []Endpoint{e}})
	wantTip(t, p, 100)
	expect.Eventually(t, "the subscription", connected(p))
	mustFetch(t, p, Request{Height: AtTip})
	if without.Load() > 0 {
		t.Errorf("requests without the header = %d, want 0", without.Load())
	}
	n.change(func() {
		n.rest = func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "bad key "+r.Header.Get("X-Key"), http.StatusForbidden)
		}
	})
	if a, err := p.Fetch(t.Context(), Request{Path: "/staking/pool", Height: AtTip}); err == nil && strings.Contains(string(a.Body), "provider-secret") || err != nil && strings.Contains(err.Error(), "provider-secret") {
		t.Errorf("Fetch = %+v, %v; want no secret", a, err)
	}
}

// The second node does not respond, so each request needs the first one.
func TestChangedNodeServesUntilItsNewConfigurationWorks(t *testing.T) {
	for name, change := range map[string]func(e *Endpoint, round int){
		"header":  func(e *Endpoint, round int) { e.Headers = http.Header{"X-Key": {fmt.Sprint("key", round)}} },
		"address": func(e *Endpoint, round int) { e.REST += strings.Repeat("/", round%2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, n := startGRPC(t, "127.0.0.1:0", "story-1"), newFakeNode(t, 100)
			n.grpc = server.address
			dead := Endpoint{REST: "http://" + porttest.Address(t)}
			p := run(t, Options{Endpoints: []Endpoint{n.endpoint(), dead}, BlockInterval: time.Minute})
			wantTip(t, p, 100)
			waitForGRPC(t, p, 0, "ok")
			ctx, stop := context.WithCancel(t.Context())
			var readers errgroup.Group
			for _, r := range []Request{
				{Path: "/staking/pool", Height: AtTip},
				{Height: AtTip, Unpinned: true, Call: &Call{Method: "status", Params: func(int64) json.RawMessage { return json.RawMessage(`{}`) }}},
				{Height: AtTip, Invoke: &Invocation{Method: aMethod}},
			} {
				readers.Go(func() error {
					for ctx.Err() == nil {
						if _, err := p.Fetch(within(t, time.Minute), r); err != nil {
							return err
						}
					}
					return nil
				})
			}
			for round := range 50 {
				e := n.endpoint()
				change(&e, round)
				expect.NoError(t, p.SetEndpoints([]Endpoint{e, dead}))
				time.Sleep(time.Duration(round%5) * 10 * time.Millisecond)
			}
			stop()
			if err := readers.Wait(); err != nil {
				t.Errorf("Fetch = %v, want every request answered", err)
			}
			expect.Eventually(t, "the last configuration is the only one", func() bool {
				n.mu.Lock()
				defer n.mu.Unlock()
				return p.endpoints()[0].before.Load() == nil && len(n.sockets) == 1
			})
		})
	}
}

func TestEndOfAHandOverRemovesAllEarlierConfigurations(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	wantTip(t, p, 100)
	last := p.endpoints()[0]
	var earlier []*endpoint
	for e := last; len(earlier) < 2; e = e.before.Load() {
		before := expect.Value(p.build(n.endpoint(), []*endpoint{e}))(t)
		p.chain.Add(before.blocks)
		e.before.Store(before)
		earlier = append(earlier, before)
	}
	p.endHandOver(last)
	for i, e := range earlier {
		if e.life.Err() == nil {
			t.Errorf("configuration %d before the last one was not removed", i+1)
		}
	}
}

func TestServerThatDoesNotAnswerIsReadAsBeforeAfterTwoChanges(t *testing.T) {
	server, n := startGRPC(t, "127.0.0.1:0", "story-1"), newFakeNode(t, 100)
	n.grpc = server.address
	p := run(t, Options{Endpoints: []Endpoint{n.endpoint()}, BlockInterval: time.Minute})
	wantTip(t, p, 100)
	waitForGRPC(t, p, 0, "ok")
	for range 2 {
		e := n.endpoint()
		e.GRPC = porttest.Address(t)
		expect.NoError(t, p.SetEndpoints([]Endpoint{e}))
		expect.Eventually(t, "an answer of the node's REST server", func() bool { return p.endpoints()[0].answers(Request{}) })
		mustFetch(t, p, Request{Height: AtTip, Invoke: &Invocation{Method: aMethod}})
	}
}

func TestNodeWithANewAddressThatDoesNotRespondIsReadAtItsOldOne(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	wantTip(t, p, 100)
	for range 3 {
		expect.NoError(t, p.SetEndpoints([]Endpoint{{REST: "http://" + porttest.Address(t)}}))
		if a := mustFetch(t, p, Request{Height: AtTip}); !isFrom(a, n) {
			t.Errorf("answer = %s, want one of the old address", a.Body)
		}
	}
	n.commit(101)
	wantTip(t, p, 101)
	other := newFakeNode(t, 101)
	expect.NoError(t, p.SetEndpoints([]Endpoint{other.endpoint()}))
	expect.Eventually(t, "an answer of the new address", func() bool { return isFrom(mustFetch(t, p, Request{Height: AtTip}), other) })
	expect.Eventually(t, "the end of the subscription to the old address", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.sockets) == 0
	})
}

func TestExecutionBlocksAreReadAsBeforeUntilTheNewConfigurationWorks(t *testing.T) {
	n := newFakeNode(t, 100)
	n.executionAhead = 1000
	p := run(t, Options{BlockInterval: time.Minute}, n)
	wantTip(t, p, 100)
	dead := "http://" + porttest.Address(t)
	expect.NoError(t, p.SetEndpoints([]Endpoint{{REST: dead, Comet: dead}}))
	since, newest, err := p.Executed(within(t, time.Minute), "client", 100, 1050)
	if since != 100 || newest != 1099 || err != nil {
		t.Errorf("Executed = %d, %d, %v; want 100, 1099 of the old address", since, newest, err)
	}
}

func TestEventsAreOfferedAsBeforeUntilTheNewConfigurationWorks(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	wantTip(t, p, 100)
	dead := "http://" + porttest.Address(t)
	expect.NoError(t, p.SetEndpoints([]Endpoint{{REST: dead, Comet: dead}}))
	c := p.CometBFT()[0]
	expect.Equal(t, c.Fit(), true, "Fit of the old address")
	expect.Value(c.Subscribe(within(t, time.Minute), "tm.event='NewBlock'", 1<<20))(t).Close()
}

func TestSubscriptionAtARemovedNodeSaysSo(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	s := expect.Value(p.CometBFT()[0].Subscribe(within(t, time.Minute), "tm.event='NewBlock'", 1<<20))(t)
	defer s.Close()
	expect.NoError(t, p.SetEndpoints(nil))
	if _, err := s.Next(within(t, time.Minute)); !errors.Is(err, upstream.ErrRemoved) {
		t.Errorf("Next = %v, want ErrRemoved", err)
	}
}
