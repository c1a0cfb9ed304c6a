package node

import (
	"context"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestOnlyAndAvoidSelectTheNode(t *testing.T) {
	a, b := newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{}, a, b)
	wantTip(t, p, 100)
	expect.Eventually(t, "both nodes ready", func() bool { return p.Ready() == nil && p.Health()[1].Height == 100 })
	for name, test := range map[string]struct {
		only, avoid, want string
	}{
		"only the first": {a.address, "", a.address}, "only the second": {b.address, "", b.address},
		"avoid the first": {"", a.address, b.address}, "avoid the second": {"", b.address, a.address},
		"only the first, and avoid it": {a.address, a.address, a.address},
	} {
		answer, err := p.Fetch(within(t, time.Minute), Request{Path: "/x", Height: 100, Only: test.only, Avoid: test.avoid, Audit: true})
		if err != nil || answer.Node != test.want {
			t.Errorf("%s: Fetch = %+v, %v; want node %s", name, answer, err, test.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if answer, err := p.Fetch(ctx, Request{Path: "/x", Height: 100, Only: "elsewhere"}); err == nil {
		t.Errorf("Fetch from an unknown node = %+v, want an error", answer)
	}
}

func TestNodeThatFailedIsPreferredToTheAvoidedOne(t *testing.T) {
	avoided, failed := newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{}, avoided, failed)
	waitForProbes(t, p)
	prefer(p, 0)
	p.endpoints()[1].restServer.failed.Store(time.Now().UnixNano())
	expect.Equal(t, mustFetch(t, p, Request{Height: 100, Avoid: avoided.address}).Node, failed.address, "node")
}

// The avoided node has the block first.
func TestFetchWaitsForLaggingNodeInsteadOfAvoidedOne(t *testing.T) {
	a, b := newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: 10 * time.Second}, a, b)
	expect.Eventually(t, "both subscriptions", func() bool { return p.Health()[0].Connected && p.Health()[1].Connected })
	a.commit(101)
	wantTip(t, p, 101)
	answered := make(chan *Answer)
	go func() {
		answer, _ := p.Fetch(within(t, time.Minute), Request{Path: "/x", Height: 101, Avoid: a.address})
		answered <- answer
	}()
	b.commit(101)
	if answer := <-answered; answer == nil || answer.Node != b.address {
		t.Errorf("Fetch = %+v, want node %s", answer, b.address)
	}
}
