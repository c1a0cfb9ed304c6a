package proxy_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// told is what an answer says about its age.
type told struct{ Control, Age, Status string }

// An aging is a story of one answer: what happens, and what is told then.
type aging struct {
	name  string
	after time.Duration
	does  func(*fakeChain)
	sends [2]string // a header
	want  told
}

func nothingHappens(*fakeChain) {}

func pass(n int64) func(*fakeChain) { return func(f *fakeChain) { f.grow(n) } }

// age tells a story in a bubble of time.
func age(t *testing.T, target string, o proxy.Options, steps []aging) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h, chain := newChainProxy(t, o)
		chain.tip.Interval = 10 * time.Second
		chain.grow(0) // the block has just come
		for _, step := range steps {
			time.Sleep(step.after)
			step.does(chain)
			r := httptest.NewRequest(http.MethodGet, target, nil)
			if step.sends[0] != "" {
				r.Header.Set(step.sends[0], step.sends[1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			synctest.Wait() // for what goes on in the background
			got := told{w.Header().Get("Cache-Control"), w.Header().Get("Age"), w.Header().Get("Cache-Status")}
			expect.NoDiff(t, got, step.want, "%s", step.name)
		}
	})
}

var aged = cache.Policy{
	FreshBlocks: 1, StaleBlocks: 3, ErrorBlocks: 100,
	Fresh: time.Minute, Stale: 2 * time.Minute, StaleIfError: time.Hour, Keep: time.Hour,
}

func fails(f *fakeChain) { f.fails(errors.New("gone")) }

func TestHeadersOfAgingEntryInBlocks(t *testing.T) {
	age(t, anyPath, proxy.Options{Chain: story.Options{Routes: map[string]cache.Policy{"pool": aged}}}, []aging{
		{"an answer read for this request has no age", 0, nothingHappens, [2]string{},
			told{"public, max-age=20, s-maxage=10", "", `tipcache; fwd=uri-miss; stored; ttl=20`}},
		{"later it has one, and what is left is less", 3500 * time.Millisecond, nothingHappens, [2]string{},
			told{"public, max-age=19, s-maxage=6", "3", `tipcache; hit; ttl=16; detail="memory"`}},
		{"a block that is on time changes neither", 6500 * time.Millisecond, pass(1), [2]string{},
			told{"public, max-age=20, s-maxage=10", "10", `tipcache; hit; ttl=10; detail="memory"`}},
		{"when the next is late, nothing is promised", 25 * time.Second, nothingHappens, [2]string{},
			told{"public, max-age=0, s-maxage=0", "35", `tipcache; hit; ttl=0; detail="memory"`}},
		{"a client that must see the newest block has it read", 0, nothingHappens, [2]string{"X-Min-Block-Height", "229"},
			told{"public, max-age=10, s-maxage=0", "", `tipcache; fwd=request; stored; ttl=10`}},
		{"past its blocks it is stale", time.Second, func(f *fakeChain) { f.grow(2); fails(f) }, [2]string{},
			told{"public, max-age=0, s-maxage=0", "1", `tipcache; fwd=stale; ttl=0; detail="memory stale-while-revalidate"`}},
		{"and the more so", 2 * time.Second, nothingHappens, [2]string{},
			told{"public, max-age=0, s-maxage=0", "3", `tipcache; fwd=stale; ttl=-2; detail="memory stale-while-revalidate"`}},
		{"while the node fails it serves for longer", 0, pass(3), [2]string{},
			told{"public, max-age=0, s-maxage=0", "3", `tipcache; hit; ttl=-30; detail="memory stale-if-error"`}},
		{"without a height source its age is in seconds", 57 * time.Second, (*fakeChain).deafen, [2]string{},
			told{"public, max-age=0, s-maxage=0", "60", `tipcache; hit; ttl=0; detail="memory seconds"`}},
	})
}

func TestHeadersOfAgingEntryInSeconds(t *testing.T) {
	age(t, anyPath, proxy.Options{Chain: story.Options{Routes: map[string]cache.Policy{"pool": aged}}}, []aging{
		{"an answer read for this request has no age", 0, (*fakeChain).deafen, [2]string{},
			told{"public, max-age=60, s-maxage=1", "", `tipcache; fwd=uri-miss; stored; ttl=60; detail="seconds"`}},
		{"later it has one", 59 * time.Second, nothingHappens, [2]string{},
			told{"public, max-age=60, s-maxage=1", "59", `tipcache; hit; ttl=1; detail="memory seconds"`}},
		{"then it is stale", 2500 * time.Millisecond, fails, [2]string{},
			told{"public, max-age=0, s-maxage=0", "61", `tipcache; fwd=stale; ttl=-2; detail="memory stale-while-revalidate seconds"`}},
		{"then it serves because the node fails", time.Minute, nothingHappens, [2]string{},
			told{"public, max-age=0, s-maxage=0", "121", `tipcache; fwd=stale; ttl=-62; detail="memory stale-if-error seconds"`}},
		{"a known tip makes it stale at once", 0, func(f *fakeChain) { f.tip.Known, f.tip.Height = true, 300 }, [2]string{},
			told{"public, max-age=0, s-maxage=0", "121", `tipcache; hit; ttl=0; detail="memory stale-if-error"`}},
	})
}

func TestHeadersOfPinnedBlock(t *testing.T) {
	pinned := [2]string{"X-Block-Height", "100"}
	age(t, anyPath, proxy.Options{}, []aging{
		{"the client may keep it for a day", 0, nothingHappens, pinned,
			told{"private, max-age=86400", "", `tipcache; fwd=uri-miss; stored`}},
		{"whatever comes", time.Hour, pass(1000), pinned,
			told{"private, max-age=90000", "3600", `tipcache; hit; detail="memory"`}},
		{"even nothing", time.Hour, (*fakeChain).deafen, pinned,
			told{"private, max-age=93600", "7200", `tipcache; hit; detail="memory"`}},
	})
	age(t, anyPath+"?x-block-height=100", proxy.Options{}, []aging{
		{"whose URL names it: others may keep it, too", 0, nothingHappens, [2]string{},
			told{"public, max-age=86400, immutable", "", `tipcache; fwd=uri-miss; stored`}},
		{"whether or not the header says so, too", 0, nothingHappens, pinned,
			told{"public, max-age=86400, immutable", "0", `tipcache; hit; detail="memory"`}},
	})
	o := proxy.Options{Chain: story.Options{Auth: true}, Web: web.Options{Keys: []limits.Key{keyOf("a", "key")}}}
	age(t, anyPath+"?x-block-height=100", o, []aging{
		{"where a key is required", 0, nothingHappens, [2]string{"X-Api-Key", "key"},
			told{"private, max-age=86400", "", `tipcache; fwd=uri-miss; stored`}},
	})
}
