package node

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"
)

// newPool makes a pool without running it, with times fit for a test.
func newPool(t *testing.T, o Options, nodes ...*fakeNode) *Pool {
	t.Helper()
	for _, n := range nodes {
		o.Endpoints = append(o.Endpoints, n.endpoint())
	}
	o.BlockInterval = cmp.Or(o.BlockInterval, 50*time.Millisecond)
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// run makes a pool and runs it until it knows the tip of the nodes.
func run(t *testing.T, o Options, nodes ...*fakeNode) *Pool {
	t.Helper()
	p := newPool(t, o, nodes...)
	go func() { _ = p.Run(context.Background()) }()
	eventually(t, "every node was asked", func() bool {
		return !slices.ContainsFunc(p.endpoints(), func(e *endpoint) bool { return e.look().Unseen })
	})
	return p
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not in time: %s", what)
}

// checked waits until a node was asked for its status so many times more.
func checked(t *testing.T, n *fakeNode, times int) {
	t.Helper()
	count := func() (checks int) {
		n.change(func() { checks = n.checks })
		return checks
	}
	before := count()
	eventually(t, "some more checks", func() bool { return count() >= before+times })
}

// heardFor waits until the pool has heard from a source so long after now.
func heardFor(t *testing.T, d time.Duration, pools ...*Pool) {
	t.Helper()
	begun := time.Now()
	for _, p := range pools {
		eventually(t, "words of a source", func() bool { return p.Tip().Seen.Sub(begun) >= d })
	}
}

// probed waits until the pool has asked all nodes what it asks them by itself.
func probed(t *testing.T, p *Pool) {
	t.Helper()
	eventually(t, "the probes", func() bool {
		return !slices.ContainsFunc(p.endpoints(), func(e *endpoint) bool {
			v := e.look()
			load := e.queue.Load()
			return !v.answering() || load.InFlight+load.Waiting > 0
		})
	})
}

// prefer has one endpoint asked before the others, which are made out to be far
// away. How fast they were so far is left to chance.
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
