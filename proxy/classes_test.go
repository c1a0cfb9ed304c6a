package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestClassesChangeWhileServing(t *testing.T) {
	s := startChain(t, proxy.Options{})
	steps := []struct {
		name    string
		classes blocks.Classes
		routes  map[string]cache.Policy
		hit     bool
	}{
		{"default", blocks.Classes{}, nil, false},
		{"a class with more fresh blocks", blocks.Classes{Live: longFresh}, nil, true},
		{"default again", blocks.Classes{}, nil, false},
		{"a policy of the route", blocks.Classes{}, map[string]cache.Policy{"pool": longFresh}, true},
	}
	for _, step := range steps {
		expect.NoError(t, s.proxy.SetClasses(step.classes, step.routes))
		s.get(t, anyPath)
		s.chain.grow(50)
		if got := s.get(t, anyPath).header.Get("Cache-Status"); strings.Contains(got, "; hit") != step.hit {
			t.Errorf("%s: Cache-Status after 50 blocks = %s, want a hit: %t", step.name, got, step.hit)
		}
	}
	unknown := map[string]cache.Policy{"nope": longFresh}
	if err := s.proxy.SetClasses(blocks.Classes{}, unknown); err == nil {
		t.Error("SetClasses with a policy of an unknown route: error = nil, want one")
	}
	if _, err := proxy.New(proxy.Options{Cache: newCache(t, nil), Chain: story.Options{Nodes: newFakeChain(t), Routes: unknown}}); err == nil {
		t.Error("New with a policy of an unknown route: error = nil, want one")
	}
	expect.Contains(t, s.get(t, anyPath).header.Get("Cache-Status"), "; hit", "Cache-Status after a refused change")
}

func TestChainMayRequireKey(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{Auth: true}, Web: web.Options{Keys: []limits.Key{keyOf("a", "key")}}})
	for key, want := range map[string]string{
		"":      chainRefusal(http.StatusUnauthorized, "the X-Api-Key header is required"),
		"guess": chainRefusal(http.StatusUnauthorized, "the X-Api-Key is not valid"),
	} {
		s.get(t, anyPath, "X-Api-Key", key).expectRefusal(t, http.StatusUnauthorized, want)
	}
	for _, target := range []string{anyPath, anyPath + "?x-block-height=100"} {
		got := s.get(t, target, "X-Api-Key", "key")
		got.expect(t, http.StatusOK)
		if control := got.header.Get("Cache-Control"); !strings.HasPrefix(control, "private, ") {
			t.Errorf("Cache-Control of %s = %q, want private", target, control)
		}
	}
}
