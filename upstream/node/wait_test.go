package node

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

// newPool returns a pool with short intervals. It does not run the pool.
func newPool(t *testing.T, o Options, nodes ...*fakeNode) *Pool {
	t.Helper()
	for _, n := range nodes {
		o.Endpoints = append(o.Endpoints, n.endpoint())
	}
	o.BlockInterval = cmp.Or(o.BlockInterval, 50*time.Millisecond)
	p := expect.Value(New(o))(t)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// run returns a running pool after it has polled all nodes.
func run(t *testing.T, o Options, nodes ...*fakeNode) *Pool {
	t.Helper()
	p := newPool(t, o, nodes...)
	go func() { _ = p.Run(context.Background()) }()
	expect.Eventually(t, "every node to be polled", func() bool {
		return !slices.ContainsFunc(p.endpoints(), func(e *endpoint) bool { return e.snapshot().Unseen })
	})
	return p
}

// waitForStatusRequests waits for a number of further status requests to a node.
func waitForStatusRequests(t *testing.T, n *fakeNode, times int) {
	t.Helper()
	count := func() (checks int) {
		n.change(func() { checks = n.checks })
		return checks
	}
	before := count()
	expect.EventuallyAtLeast(t, "status requests", count, before+times)
}

// waitForClaims waits until each pool has accepted a claim d after now.
func waitForClaims(t *testing.T, d time.Duration, pools ...*Pool) {
	t.Helper()
	start := time.Now()
	for _, p := range pools {
		expect.EventuallyAtLeast(t, "a claim of a height source", func() time.Duration { return p.Tip().Seen.Sub(start) }, d)
	}
}

// waitForProbes waits until the pool has probed all nodes.
func waitForProbes(t *testing.T, p *Pool) {
	t.Helper()
	expect.Eventually(t, "the probes of all nodes", func() bool {
		return !slices.ContainsFunc(p.endpoints(), func(e *endpoint) bool {
			v := e.snapshot()
			load := e.queue.Load()
			return !v.answering() || load.InFlight+load.Waiting > 0
		})
	})
}

// prefer makes one endpoint the preferred one by setting the latencies of all.
func prefer(p *Pool, first int) {
	for i, e := range p.endpoints() {
		e.update(func(v *view) {
			v.latency = 0
			if i != first {
				v.latency = time.Hour
			}
		})
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// must fails the test if err is not nil.
