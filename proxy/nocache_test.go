package proxy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/web"
)

// An answer that would serve for long.
var long = cache.Policy{
	FreshBlocks: 100, StaleBlocks: 200, ErrorBlocks: 1000,
	Fresh: time.Hour, Stale: time.Hour, StaleIfError: time.Hour, Keep: time.Hour,
}

func TestNoCacheIsIgnoredUnlessAllowed(t *testing.T) {
	tests := []struct {
		name    string
		allowed bool
		sent    string
		obeyed  bool
	}{
		{"not allowed", false, "no-cache", false},
		{"no-cache", true, "no-cache", true},
		{"a reload in a browser", true, "max-age=0", true},
		{"among other directives", true, "no-transform, No-Cache", true},
		{"another age", true, "max-age=10", false},
		{"no-store, which is about the answer", true, "no-store", false},
		{"a name that contains it", true, "x-no-cache", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startChain(t, proxy.Options{Web: web.Options{AllowNoCache: tt.allowed}, Chain: chain.Options{Routes: map[string]cache.Policy{"pool": long}}})
			s.get(t, anyPath)
			s.chain.grow(1)
			want := "228"
			if tt.obeyed {
				want = "229"
			}
			s.get(t, anyPath, "Cache-Control", tt.sent).has(t, "X-Block-Height", want)
		})
	}
}

func TestAnswersReadAnew(t *testing.T) {
	s := startChain(t, proxy.Options{Web: web.Options{AllowNoCache: true}, Chain: chain.Options{Routes: map[string]cache.Policy{"pool": long}}})
	ask := func(headers ...string) (status, height string) {
		got := s.get(t, anyPath, append(headers, "Cache-Control", "no-cache")...)
		what, _, _ := strings.Cut(strings.TrimPrefix(got.header.Get("Cache-Status"), "tipcache; "), ";")
		return what, got.header.Get("X-Block-Height")
	}
	steps := []struct {
		name    string
		before  func()
		headers []string
		want    [2]string
	}{
		{"nothing is at hand", func() {}, nil, [2]string{"fwd=uri-miss", "228"}},
		{"an answer at the newest block is new enough", func() {}, nil, [2]string{"hit", "228"}},
		{"one at the block before is not, though fresh", func() { s.chain.grow(1) }, nil, [2]string{"fwd=request", "229"}},
		{"a past block never changes", func() {}, []string{"X-Block-Height", "100"}, [2]string{"fwd=uri-miss", "100"}},
		{"nor when asked again", func() {}, []string{"X-Block-Height", "100"}, [2]string{"hit", "100"}},
		{"without a height source it is read each time", s.chain.deafen, nil, [2]string{"fwd=request", ""}},
		{"each time", func() {}, nil, [2]string{"fwd=request", ""}},
	}
	for _, step := range steps {
		step.before()
		status, height := ask(step.headers...)
		if diff := cmp.Diff(step.want, [2]string{status, height}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	s.chain.fails(errors.New("gone"))
	if got := s.get(t, anyPath, "Cache-Control", "no-cache"); got.status != 500 {
		t.Errorf("status %d from a node that fails, want no old answer", got.status)
	}
	if got := s.get(t, anyPath); got.status != 200 {
		t.Errorf("status %d for others, want the old answer", got.status)
	}
}

func TestPagesReadAnew(t *testing.T) {
	s := startList(t, listing.Options{Policy: long}, func(o *proxy.Options) { o.Web.AllowNoCache = true })
	for range 3 {
		s.post(t, `{}`)
		s.post(t, `{}`, "Cache-Control", "no-cache")
	}
	if n := s.store.calls.Load(); n != 4 {
		t.Errorf("the store was asked %d times, want once, and for each of three demands", n)
	}
}
