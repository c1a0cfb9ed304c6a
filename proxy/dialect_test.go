package proxy_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// Paths have a meaning only in a dialect, so the chain's paths are unavailable until a node has named it.
func TestChainIsUnavailableUntilItsDialectIsKnown(t *testing.T) {
	s := startChain(t, proxy.Options{Dialect: node.Undetermined})
	const unknown = `{"code":503,"msg":{},"error":"no node of the chain has answered yet, so the dialect of its nodes is not known"}` + "\n"
	for _, target := range []string{anyPath, "/cosmos/bank/v1beta1/params", "/docs", "/"} {
		got := s.get(t, target)
		got.expectRefusal(t, http.StatusServiceUnavailable, unknown)
		got.expectHeader(t, "Retry-After", "1")
	}
	s.get(t, "/live?path="+anyPath).expect(t, http.StatusOK, "retry: ")
	if e := explain(t, s.proxy, proxy.Inquiry{URL: anyPath}); e.Refusal == nil || e.Refusal.Body != unknown {
		t.Errorf("refusal in the explanation = %+v, want %s", e.Refusal, unknown)
	}
	if _, err := s.proxy.SelectRoute("pool"); err == nil {
		t.Error("SelectRoute(pool): error = nil, want one")
	}

	if err := s.proxy.SetDialect(node.Story, blocks.Classes{}, map[string]cache.Policy{"nope": {}}); err == nil {
		t.Error("SetDialect with a policy of an unknown route: error = nil, want one")
	}
	expect.NoError(t, s.proxy.SetDialect(node.Story, blocks.Classes{}, map[string]cache.Policy{"pool": longFresh}))
	s.get(t, anyPath)
	s.chain.grow(3)
	s.get(t, anyPath).expectHeader(t, "X-Block-Height", "228")
	if got := s.get(t, "/openapi.json"); !json.Valid([]byte(got.body)) {
		t.Errorf("/openapi.json = %d %.80s, want JSON", got.status, got.body)
	}
	if s.proxy.SetDialect(node.Story, blocks.Classes{}, nil) == nil {
		t.Error("second SetDialect: error = nil, want one")
	}
}
