package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestClassesChangeWhileServing(t *testing.T) {
	s := startChain(t, proxy.Options{})
	lasting := cache.Policy{FreshBlocks: 100, StaleBlocks: 100, ErrorBlocks: 100, Fresh: time.Hour, Stale: time.Hour, StaleIfError: time.Hour, Keep: time.Hour}
	steps := []struct {
		name    string
		classes blocks.Classes
		own     map[string]cache.Policy
		hit     bool
	}{
		{"an answer is stale after its blocks", blocks.Classes{}, nil, false},
		{"a class makes it fresh for longer", blocks.Classes{Live: lasting}, nil, true},
		{"the default is back", blocks.Classes{}, nil, false},
		{"a route's own policy", blocks.Classes{}, map[string]cache.Policy{"pool": lasting}, true},
	}
	for _, step := range steps {
		expect.NoError(t, s.proxy.SetClasses(step.classes, step.own))
		s.get(t, anyPath)
		s.chain.grow(50)
		if got := s.get(t, anyPath).header.Get("Cache-Status"); strings.Contains(got, "; hit") != step.hit {
			t.Errorf("%s: %s", step.name, got)
		}
	}
	if err := s.proxy.SetClasses(blocks.Classes{}, map[string]cache.Policy{"nope": lasting}); err == nil {
		t.Error("unknown route: error = nil, want one")
	}
	expect.Contains(t, s.get(t, anyPath).header.Get("Cache-Status"), "; hit", "Cache-Status after a refused change")
}

func TestChainMayRequireKey(t *testing.T) {
	s := startList(t, listing.Options{}, func(o *proxy.Options) { o.Chain.Nodes, o.Chain.Auth = newFakeChain(t), true })
	for _, tt := range []struct {
		key    string
		status int
		body   string
	}{
		{"", http.StatusUnauthorized, `{"code":401,"msg":{},"error":"the X-Api-Key header is required"}` + "\n"},
		{"guess", http.StatusUnauthorized, `{"code":401,"msg":{},"error":"the X-Api-Key is not valid"}` + "\n"},
		{testKey, http.StatusOK, ""},
	} {
		res, body := s.send(t, http.MethodGet, anyPath, "", "X-Api-Key", tt.key, "Content-Type", "")
		if res.StatusCode != tt.status || tt.body != "" && body != tt.body {
			t.Errorf("key %q: status %d, %s", tt.key, res.StatusCode, body)
		}
		if control := res.Header.Get("Cache-Control"); strings.Contains(control, "public") {
			t.Errorf("key %q: Cache-Control %q lets others be given the answer", tt.key, control)
		}
	}
}
