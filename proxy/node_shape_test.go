package proxy_test

import (
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestNodeShapeReturnsNodesBytes(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{Shape: story.Node}})
	for _, r := range recordings() {
		if r.Height != "" || strings.Contains(r.Name, "encoded_slash") || r.Status == 0 {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			s.chain.answerWith(func(node.Request) (*node.Answer, error) { return r.answer(), nil })
			s.chain.grow(1000)
			got := s.get(t, r.target())
			expect.Equal(t, got.status, r.Status, "status")
			expect.NoDiff(t, got.body, r.Raw, "body")
		})
	}
}

func TestNodeShapeHasErrorsOfTheNode(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{Shape: story.Node}})
	got := s.get(t, "/nowhere")
	got.expect(t, 404)
	expect.Equal(t, got.body, "404 page not found\n", "body")
	s.chain.failWith(&upstream.Error{Kind: upstream.Timeout, Msg: "too late"})
	s.get(t, anyPath).expectRefusal(t, 504, `{"code":504,"msg":{},"error":"too late"}`+"\n")
}
