package proxy_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// Until a node says what it speaks a path may be another one, so that nothing of the chain
// is answered. What is asked while that changes meets one or the other.
func TestChainIsUnavailableUntilItsDialectIsKnown(t *testing.T) {
	s := startChain(t, proxy.Options{Dialect: node.Undetermined})
	const unknown = `{"code":503,"msg":{},"error":"no node of the chain has answered yet, so the dialect of its nodes is not known"}` + "\n"
	for _, target := range []string{anyPath, "/cosmos/bank/v1beta1/params", "/docs", "/"} {
		got := s.get(t, target)
		got.refuses(t, http.StatusServiceUnavailable, unknown)
		got.has(t, "Retry-After", "1")
	}
	if got := s.get(t, "/live?path="+anyPath); got.status != http.StatusOK || !strings.HasPrefix(got.body, "retry: ") {
		t.Errorf("a stream: %d %s", got.status, got.body)
	}
	if e, err := s.proxy.Explain(t.Context(), proxy.Inquiry{URL: anyPath}); err != nil || e.Refusal == nil || e.Refusal.Body != unknown {
		t.Errorf("it is explained as %+v, %v", e.Refusal, err)
	}
	if _, err := s.proxy.SelectRoute("pool"); err == nil {
		t.Error("ambiguous route accepted for purging")
	}

	long := map[string]cache.Policy{"pool": {FreshBlocks: 5, StaleBlocks: 5}}
	if err := s.proxy.SetDialect(node.Story, blocks.Classes{}, map[string]cache.Policy{"nope": {}}); err == nil {
		t.Error("policy for an unknown route accepted")
	}
	expect.NoError(t, s.proxy.SetDialect(node.Story, blocks.Classes{}, long))
	s.get(t, anyPath)
	s.chain.grow(3)
	s.get(t, anyPath).has(t, "X-Block-Height", "228")
	if got := s.get(t, "/openapi.json"); !json.Valid([]byte(got.body)) {
		t.Errorf("the document is %d %.80s", got.status, got.body)
	}
	if s.proxy.SetDialect(node.Story, blocks.Classes{}, nil) == nil {
		t.Error("known dialect was changed")
	}
}
