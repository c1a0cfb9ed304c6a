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
	expect.Eventually(t, "both are read from", func() bool { return p.Ready() == nil && p.Health()[1].Height == 100 })
	for name, test := range map[string]struct {
		only, avoid, want string
	}{
		"the first alone": {a.address, "", a.address}, "the second alone": {b.address, "", b.address},
		"not the first": {"", a.address, b.address}, "not the second": {"", b.address, a.address},
		"not the first, which is the only one": {a.address, a.address, a.address},
	} {
		answer, err := p.Fetch(within(t, time.Minute), Request{Path: "/x", Height: 100, Only: test.only, Avoid: test.avoid, Audit: true})
		if err != nil || answer.Node != test.want {
			t.Errorf("%s: answer %+v, error %v, want one of node %s", name, answer, err, test.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if answer, err := p.Fetch(ctx, Request{Path: "/x", Height: 100, Only: "elsewhere"}); err == nil {
		t.Errorf("answer %+v of an unknown node, want an error", answer)
	}
}

func TestNodeThatFailedIsPreferredToTheAvoidedOne(t *testing.T) {
	avoided, failed := newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{}, avoided, failed)
	probed(t, p)
	prefer(p, 0)
	p.endpoints()[1].update(func(v *view) { v.failed = time.Now() })
	if a := mustFetch(t, p, Request{Height: 100, Avoid: avoided.address}); !from(a, failed) {
		t.Errorf("node = %s, want %s", a.Node, failed.address)
	}
}

// The node to be avoided has the block first.
func TestFetchWaitsForLaggingNodeInsteadOfAvoidedOne(t *testing.T) {
	a, b := newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: 10 * time.Second}, a, b)
	expect.Eventually(t, "both are followed", func() bool { return p.Health()[0].Connected && p.Health()[1].Connected })
	a.commit(101)
	wantTip(t, p, 101)
	answered := make(chan *Answer)
	go func() {
		answer, _ := p.Fetch(within(t, time.Minute), Request{Path: "/x", Height: 101, Avoid: a.address})
		answered <- answer
	}()
	b.commit(101)
	if answer := <-answered; answer == nil || answer.Node != b.address {
		t.Errorf("answer %+v, want one of node %s", answer, b.address)
	}
}
