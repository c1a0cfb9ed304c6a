package cosmos

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// posted are nodes that record what is posted, and answer each in turn.
type posted struct {
	blocks.Nodes
	answers []*node.Answer // nil fails
	bodies  []string
}

func (p *posted) Tip() node.Tip { return atTip{}.Tip() }

func (p *posted) Fetch(_ context.Context, r node.Request) (*node.Answer, error) {
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
		"a transaction":                          {txs + "/txs", []*node.Answer{done}, 1, "done", false},
		"a transaction at a node that starts":    {txs + "/txs", []*node.Answer{starting, done}, 1, "starting", false},
		"a simulation at a node that starts":     {txs + "/simulate", []*node.Answer{starting, done}, 2, "done", false},
		"a simulation at a node that still does": {txs + "/simulate", []*node.Answer{starting, starting, done}, 2, "starting", false},
		"a simulation without a node":            {txs + "/simulate", []*node.Answer{nil, done}, 1, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := &posted{answers: tt.answers}
			h := handlerBefore(t, nodes)
			w := httptest.NewRecorder()
			c, _ := gin.CreateTestContext(w)
			c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodPost, tt.path, strings.NewReader("tx"))
			route, _ := h.Route(c.Request)
			err := route.Serve(c, &record.Record{})
			if (err != nil) != tt.fails || w.Body.String() != tt.body {
				t.Errorf("body = %q, error = %v; want %q, an error %t", w.Body, err, tt.body, tt.fails)
			}
			want := []string{"tx", "tx"}[:tt.sent]
			expect.NoDiff(t, nodes.bodies, want, "posted")
		})
	}
}
