package cosmos

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// postNodes record posted bodies, and return one answer after another.
type postNodes struct {
	blocks.Nodes
	answers []*node.Answer // nil fails
	bodies  []string
}

func (p *postNodes) Tip() node.Tip { return atTip{}.Tip() }

func (p *postNodes) Fetch(_ context.Context, r node.Request) (*node.Answer, error) {
	p.bodies = append(p.bodies, string(r.Post.Body))
	a := p.answers[len(p.bodies)-1]
	if a == nil {
		return nil, errors.New("gone")
	}
	return a, nil
}

func TestPostIsRetriedOnlyIfItReadsState(t *testing.T) {
	starting := &node.Answer{NodeStatus: 500, Reason: node.Ambiguous, Body: []byte("starting")}
	done := &node.Answer{NodeStatus: 200, Height: 90, Type: respond.JSON, Body: []byte("done")}
	for name, tt := range map[string]struct {
		path    string
		answers []*node.Answer
		sent    int
		body    string
		fails   bool
	}{
		"a transaction":                                 {txs + "/txs", []*node.Answer{done}, 1, "done", false},
		"a transaction at a starting node":              {txs + "/txs", []*node.Answer{starting, done}, 1, "starting", false},
		"a simulation at a starting node":               {txs + "/simulate", []*node.Answer{starting, done}, 2, "done", false},
		"a simulation at a node that starts for longer": {txs + "/simulate", []*node.Answer{starting, starting, done}, 2, "starting", false},
		"a simulation without a node":                   {txs + "/simulate", []*node.Answer{nil, done}, 1, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := &postNodes{answers: tt.answers}
			h := handlerFor(t, nodes)
			w := httptest.NewRecorder()
			c, _ := gin.CreateTestContext(w)
			c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodPost, tt.path, strings.NewReader("tx"))
			route, _ := h.Route(c.Request)
			err := route.Serve(c, &record.Record{})
			if (err != nil) != tt.fails || w.Body.String() != tt.body {
				t.Errorf("body = %q, error = %v; want %q, an error: %t", w.Body, err, tt.body, tt.fails)
			}
			expect.NoDiff(t, nodes.bodies, slices.Repeat([]string{"tx"}, tt.sent), "posted bodies")
		})
	}
}
