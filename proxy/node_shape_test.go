package proxy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestNodeShapeReturnsNodesBytes(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{Shape: story.Node}})
	for _, r := range recordings(t) {
		if r.Height != "" || strings.Contains(r.Name, "encoded_slash") || r.Status == 0 {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			s.chain.does(func(node.Request) (*node.Answer, error) { return r.answer(), nil })
			s.chain.grow(1000)
			got := s.get(t, r.target())
			if diff := cmp.Diff(r.Raw, got.body); diff != "" || got.status != r.Status {
				t.Errorf("status %d, want %d; body (-want +got):\n%s", got.status, r.Status, diff)
			}
		})
	}
}

func TestNodeShapeHasNodesNotFoundError(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{Shape: story.Node}})
	got := s.get(t, "/nowhere")
	if got.status != 404 || got.body != "404 page not found\n" {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	s.chain.fails(&upstream.Error{Kind: upstream.Timeout, Msg: "too late"})
	s.get(t, anyPath).refuses(t, 504, `{"code":504,"msg":{},"error":"too late"}`+"\n")
}
