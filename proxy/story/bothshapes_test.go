package story

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// countedNodes are nodes that count requests.
type countedNodes struct {
	blocks.Nodes
	tip      node.Tip
	reason   node.Reason
	requests int
	panics   bool
}

func (n *countedNodes) Tip() node.Tip { return n.tip }

func (n *countedNodes) Fetch(context.Context, node.Request) (*node.Answer, error) {
	if n.requests++; n.panics {
		panic("test")
	}
	return &node.Answer{Reason: n.reason, Height: n.tip.Height}, nil
}

func TestRequestIsReadOncePerBlockForAllShapes(t *testing.T) {
	synctest.Test(t, testSharedReads)
}

func testSharedReads(t *testing.T) {
	n := &countedNodes{tip: node.Tip{Height: 100, Epoch: 1, Known: true}}
	shared := ShareReads(n, account.New(64<<20, nil), slog.New(slog.DiscardHandler))
	pool := node.Request{Path: "/staking/pool", Height: node.AtTip}
	for _, step := range []struct {
		name    string
		change  func()
		request node.Request
		want    int // requests to the nodes
	}{
		{"the first read", func() {}, pool, 1},
		{"the same", func() {}, pool, 1},
		{"with another query", func() {}, node.Request{Path: pool.Path, Query: "a=1", Height: node.AtTip}, 2},
		{"at the next block", func() { n.tip.Height++ }, pool, 3},
		{"the same there", func() {}, pool, 3},
		{"after a rollback to that height", func() { n.tip.Epoch++ }, pool, 4},
		{"after two seconds", func() { time.Sleep(3 * time.Second) }, pool, 5},
		{"at a height", func() {}, node.Request{Path: pool.Path, Height: 90}, 6},
		{"a failure", func() { n.tip.Height++; n.reason = node.Other }, pool, 7},
		{"after the failure", func() {}, pool, 8},
	} {
		step.change()
		a, err := shared.Fetch(t.Context(), step.request)
		if err != nil || a.Height != n.tip.Height || n.requests != step.want {
			t.Errorf("%s: answer of block %d, %v, after %d requests; want block %d after %d", step.name, a.Height, err, n.requests, n.tip.Height, step.want)
		}
	}
	n.panics = true
	_, err := shared.Fetch(t.Context(), pool)
	expect.ErrorIs(t, err, upstream.ErrPanicked, "Fetch from nodes that panic")
}
