package story

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// answerNodes are nodes that return one answer to every request.
type answerNodes struct {
	epochNodes
	node.Answer
}

func (n *answerNodes) Tip() node.Tip {
	return node.Tip{Known: true, Height: 1000, Interval: 4 * time.Second}
}

func (n *answerNodes) Fetch(context.Context, node.Request) (*node.Answer, error) {
	return &n.Answer, nil
}

// read reads a path as the cache does, and gets a as the node's answer.
func (n *answerNodes) read(t *testing.T, h *Handler, path string, before *cache.Entry, a node.Answer) *cache.Entry {
	t.Helper()
	n.Answer = a
	request := newRequest(t, path)
	q := expect.Value(h.Table.Endpoint(request).Parse(request))(t)
	ask := q.Ask
	ask.Unpinned = true
	got := expect.Value(q.Source.Ask(t.Context(), q, ask, before))(t)
	return expect.Value(q.Source.Entry(q, got, before))(t)
}

func answer(r node.Reason, height int64) node.Answer {
	return node.Answer{Reason: r, Status: r.Status(), NodeStatus: 500, Height: height, Type: "text/x", Body: []byte(`{"code":200,"msg":{"a":1},"error":""}`), Text: "reason"}
}

func TestEntryHasTheStatusHeightAndLifetimeOfItsAnswer(t *testing.T) {
	const path = "/bank/params"
	for _, tt := range []struct {
		node.Answer
		height   int64
		lifetime time.Duration
		body     string
	}{
		{answer(node.OK, 100), 100, 0, `{"code":200,"msg":{"a":1},"error":""}`},
		{answer(node.NotFound, 100), 100, 8 * time.Second, `{"code":404,"msg":{},"error":"nothing found at /bank/params: reason"}`},
		{answer(node.BadInput, 100), 100, 8 * time.Second, `{"code":400,"msg":{},"error":"reason"}`},
		{answer(node.Pruned, 100), 0, 3 * time.Second, `{"code":404,"msg":{},"error":"reason"}`},
		{answer(node.FutureHeight, 100), 0, time.Second, `{"code":400,"msg":{},"error":"reason"}`},
		{answer(node.Other, 100), 100, blocks.BrokenLife, `{"code":502,"msg":{},"error":"reason"}`},
	} {
		for _, shape := range []Shape{Documented, Node} {
			synctest.Test(t, func(t *testing.T) {
				nodes := &answerNodes{}
				h := newHandler(t, nodes, Options{RefuseUnknown: true, Shape: shape})
				e := nodes.read(t, h, path, nil, tt.Answer)
				status, typ, body := tt.Status, respond.JSON, tt.body
				if shape == Node {
					status, typ, body = tt.NodeStatus, tt.Type, string(tt.Body)
				}
				lifetime := time.Duration(0)
				if !e.Expires.IsZero() {
					lifetime = time.Until(e.Expires)
				}
				if got := strings.TrimSpace(string(e.Body)); e.Status != status || e.Type != typ || got != body {
					t.Errorf("%s in the %s shape: response = %d %s %s, want %d %s %s", tt.Reason, shape, e.Status, e.Type, got, status, typ, body)
				}
				if e.Height != tt.height || lifetime != tt.lifetime || e.Failed != (tt.Reason == node.Other) {
					t.Errorf("%s in the %s shape: height, lifetime, failed = %d, %s, %t, want %d, %s, %t", tt.Reason, shape, e.Height, lifetime, e.Failed, tt.height, tt.lifetime, tt.Reason == node.Other)
				}
			})
		}
	}
}

func TestFailureIsInputFaultIfTheRowAnsweredOtherInputLately(t *testing.T) {
	balance := func(digit, denom string) string {
		return "/bank/balances/0x" + strings.Repeat(digit, 40) + "/by_denom?denom=" + denom
	}
	this, other := balance("a", "stake"), balance("a", "other")
	working := answer(node.Other, 100)
	working.NodeWorks = true
	for name, tt := range map[string]struct {
		answered []string
		pause    time.Duration
		failure  node.Answer
		before   int // status of this input's answer before, 0 for none
		status   int
	}{
		"another input":                {[]string{other}, 0, working, 0, 400},
		"another path":                 {[]string{balance("b", "stake")}, 0, working, 0, 400},
		"another input before this":    {[]string{other, this, this}, lately - 1, working, 0, 400},
		"another input too long ago":   {[]string{other}, lately, working, 0, 502},
		"this input alone":             {[]string{this}, 0, working, 0, 502},
		"a node that reads nothing":    {[]string{other}, 0, answer(node.Other, 100), 0, 502},
		"this input has a good answer": {[]string{other}, 0, working, 200, 502},
		"this input has none":          {[]string{other}, 0, working, 404, 400},
	} {
		synctest.Test(t, func(t *testing.T) {
			nodes := &answerNodes{}
			h := newHandler(t, nodes, Options{RefuseUnknown: true})
			for _, path := range tt.answered {
				nodes.read(t, h, path, nil, answer(node.NotFound, 100))
			}
			var before *cache.Entry
			if tt.before > 0 {
				before = &cache.Entry{Content: cache.NewContent(tt.before, respond.JSON, "", nil, 0)}
			}
			time.Sleep(tt.pause)
			if e := nodes.read(t, h, this, before, tt.failure); e.Status != tt.status {
				t.Errorf("%s: status = %d, want %d", name, e.Status, tt.status)
			}
			if tt.before == 200 { // the row fails now, although it succeeded before
				if e := nodes.read(t, h, this, nil, tt.failure); e.Status != tt.status {
					t.Errorf("%s: next status = %d, want %d", name, e.Status, tt.status)
				}
			}
		})
	}
}
