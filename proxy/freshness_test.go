package proxy_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func grow(n int64) func(*fakeChain) { return func(f *fakeChain) { f.grow(n) } }

func TestHeadersOfAgingEntry(t *testing.T) {
	type headers struct{ Control, Age, Status string }
	policy := cache.Policy{
		FreshBlocks: 1, StaleBlocks: 3, ErrorBlocks: 100,
		Fresh: time.Minute, Stale: 2 * time.Minute, StaleIfError: time.Hour, Keep: time.Hour,
	}
	synctest.Test(t, func(t *testing.T) {
		h, chain := newChainProxy(t, proxy.Options{Routes: map[string]cache.Policy{"pool": policy}})
		chain.tip.Interval = 10 * time.Second
		for _, step := range []struct {
			name   string
			after  time.Duration
			before func(*fakeChain)
			min    string // X-Min-Block-Height
			want   headers
		}{
			{"a miss has no age", 0, func(*fakeChain) {}, "",
				headers{"public, max-age=20, s-maxage=10", "", `tipcache; fwd=uri-miss; stored; ttl=20`}},
			{"a hit has an age and a shorter lifetime", 3500 * time.Millisecond, func(*fakeChain) {}, "",
				headers{"public, max-age=19, s-maxage=6", "3", `tipcache; hit; ttl=16; detail="memory"`}},
			{"a block on time leaves the lifetime as it was", 6500 * time.Millisecond, grow(1), "",
				headers{"public, max-age=20, s-maxage=10", "10", `tipcache; hit; ttl=10; detail="memory"`}},
			{"a late block ends the lifetime", 25 * time.Second, func(*fakeChain) {}, "",
				headers{"public, max-age=0, s-maxage=0", "35", `tipcache; hit; ttl=0; detail="memory"`}},
			{"a minimum block causes a read", 0, func(*fakeChain) {}, "229",
				headers{"public, max-age=10, s-maxage=0", "", `tipcache; fwd=request; stored; ttl=10`}},
			{"stale after its fresh blocks", time.Second, func(f *fakeChain) { f.grow(2); f.failWith(errors.New("gone")) }, "",
				headers{"public, max-age=0, s-maxage=0", "1", `tipcache; fwd=stale; ttl=0; detail="memory stale-while-revalidate"`}},
			{"stale for longer", 2 * time.Second, func(*fakeChain) {}, "",
				headers{"public, max-age=0, s-maxage=0", "3", `tipcache; fwd=stale; ttl=-2; detail="memory stale-while-revalidate"`}},
			{"stale while the node fails", 0, grow(3), "",
				headers{"public, max-age=0, s-maxage=0", "3", `tipcache; hit; ttl=-30; detail="memory stale-if-error"`}},
			{"fresh in seconds while no tip is known", 57 * time.Second, (*fakeChain).loseTip, "",
				headers{"public, max-age=0, s-maxage=0", "60", `tipcache; hit; ttl=0; detail="memory seconds"`}},
		} {
			time.Sleep(step.after)
			step.before(chain)
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, anyPath, nil)
			r.Header.Set("X-Min-Block-Height", step.min)
			h.ServeHTTP(w, r)
			synctest.Wait() // for background reads
			expect.NoDiff(t, headers{w.Header().Get("Cache-Control"), w.Header().Get("Age"), w.Header().Get("Cache-Status")}, step.want, "%s", step.name)
		}
	})
}

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
	if _, err := proxy.New(proxy.Options{Cache: newCache(t, nil), Chain: blocks.Options{Nodes: newFakeChain(t)}, Routes: unknown}); err == nil {
		t.Error("New with a policy of an unknown route: error = nil, want one")
	}
	expect.Contains(t, s.get(t, anyPath).header.Get("Cache-Status"), "; hit", "Cache-Status after a refused change")
}

func TestChainMayRequireKey(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: blocks.Options{Auth: true}, Web: web.Options{Keys: []limits.Key{keyOf("a", "key")}}})
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
