package cache_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

// mustServe asks for many keys, and wants the origin's answer for each.
func mustServe(t *testing.T, c *cache.Cache, tip int64, n int) {
	t.Helper()
	for i := range n {
		body := fmt.Sprint(tip, "-", i)
		res := mustGet(t, c, cache.Query{Key: fmt.Sprint("k", i), Policy: live, Tip: tip, MinHeight: tip}, answer(tip, []byte(body)))
		if string(res.Entry.Body) != body {
			t.Fatalf("got %s, want %s", res.Entry.Body, body)
		}
	}
}

func TestFlightThatFailsDoesNotReturnToAnOlderEntry(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	a, b := named(t, store.Addr(), cache.Options{}, redis.Options{}), named(t, store.Addr(), cache.Options{}, redis.Options{})
	heard(t, a, b)
	q := cache.Query{Key: "k", Policy: eachBlock, Tip: 100}
	mustGet(t, a, q, answer(100, page))
	idle(t, a)

	q.Tip = 110
	asked, fail, got := make(chan bool), make(chan bool), make(chan cache.Result, 1)
	go func() {
		got <- mustGet(t, a, q, func(context.Context, *cache.Entry) (*cache.Entry, error) {
			close(asked)
			<-fail
			return nil, errDown
		})
	}()
	<-asked
	store.FlushAll() // the other replica reads the node, because the lease is lost
	mustGet(t, b, q, answer(110, page))
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	expect.Eventually(t, "the replica has the other's entry", func() bool {
		res, err := a.Get(impatient, q, down)
		return err == nil && res.Entry.Height == 110
	})
	close(fail)
	if res := <-got; res.Entry.Height != 110 {
		t.Errorf("%v at block %d, want the entry at block 110", res.Outcome, res.Entry.Height)
	}
}

func TestFailingSharedStoreDoesNotFailRequests(t *testing.T) {
	t.Parallel()
	// Of 100 misses, with two operations each, hardly any are to wait for the store:
	// the others find that it is left alone.
	const misses, enough = 100, 50
	waited := func(t *testing.T, c *cache.Cache) int {
		return metric(t, c, "shared_errors_total") - metric(t, c, "shared_errors_total", "unavailable")
	}

	t.Run("it was never there", func(t *testing.T) {
		t.Parallel()
		c := named(t, "127.0.0.1:1", cache.Options{}, redis.Options{Timeout: 100 * time.Millisecond})
		mustServe(t, c, 100, misses)
		if n := waited(t, c); c.SharedState() == "closed" || n == 0 || n > enough {
			t.Errorf("the breaker is %s after %d errors in %d misses, want it not closed, after 1 to %d", c.SharedState(), n, misses, enough)
		}
	})
	t.Run("it accepts but does not answer", func(t *testing.T) {
		t.Parallel()
		way := startProxy(t, miniredis.RunT(t).Addr())
		way.stall()
		c := named(t, way.addr, cache.Options{}, redis.Options{Timeout: 500 * time.Millisecond})
		mustServe(t, c, 100, misses)
		if n := waited(t, c); n == 0 || n > enough {
			t.Errorf("%d errors in %d misses, want 1 to %d", n, misses, enough)
		}
		way.heal()
		tried := 0
		expect.Eventually(t, "the store is used again", func() bool {
			tried++
			mustGet(t, c, cache.Query{Key: fmt.Sprint("again", tried), Policy: live, Tip: 101}, answer(101, page))
			return c.SharedState() == "closed"
		})
	})
	t.Run("it is killed and comes back", func(t *testing.T) {
		t.Parallel()
		s := startRedis(t)
		way := startProxy(t, s.addr)
		c := replica(t, way.addr, redis.Options{Timeout: 300 * time.Millisecond})
		mustServe(t, c, 100, 5)
		way.cut()
		mustServe(t, c, 101, 20)
		way.heal()
		other, tried := replica(t, s.addr, redis.Options{}), 0
		expect.Eventually(t, "the store is used again", func() bool {
			tried++
			q := cache.Query{Key: fmt.Sprint("again", tried), Policy: live, Tip: 101}
			mustGet(t, c, q, answer(101, []byte("x")))
			idle(t, c)
			return tell(mustGet(t, other, q, answer(101, []byte("y"))), nil) == "hit shared: x at 101"
		})
	})
	t.Run("it is full", func(t *testing.T) {
		c := replica(t, startRedis(t, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction").addr, redis.Options{})
		mustServe(t, c, 100, 20)
		if c.SharedState() != "closed" || metric(t, c, "shared_errors_total") == 0 {
			t.Errorf("the breaker is %s after %d errors; want closed after some, because the store answers", c.SharedState(), metric(t, c, "shared_errors_total"))
		}
	})
	t.Run("it has forgotten the scripts", func(t *testing.T) {
		addr := startRedis(t).addr
		c := replica(t, addr, redis.Options{})
		mustServe(t, c, 100, 1)
		expect.NoError(t, client(t, addr).ScriptFlush(t.Context()).Err())
		mustServe(t, c, 101, 1)
		idle(t, c)
		other := replica(t, addr, redis.Options{})
		if res := mustGet(t, other, cache.Query{Key: "k0", Policy: live, Tip: 101}, nil); res.Store != "shared" || metric(t, c, "shared_errors_total") != 0 {
			t.Errorf("got %s, %d errors; want it from the shared store, 0", tell(res, nil), metric(t, c, "shared_errors_total"))
		}
	})
}

func TestUnreadableEntryIsAMissAndOverwritten(t *testing.T) {
	t.Parallel()
	const key = "tipcache:1:{story-1:k}"
	// stored is an entry with nothing wrong but its status.
	stored := func(status int) func(context.Context, *goredis.Client) error {
		etag := cache.NewContent(status, "", "", []byte("x"), 0).ETag
		return func(ctx context.Context, rdb *goredis.Client) error {
			return rdb.HSet(ctx, key, "m", fmt.Sprintf("1 100 1750000000000000 0 %s %d 0\n\x00\x00", etag, status), "b", "px").Err()
		}
	}
	good := "1 100 1750000000000000 0 \"tag\" 200 0\n\x00\x00"
	tests := []struct {
		name string
		put  func(ctx context.Context, rdb *goredis.Client) error
	}{
		{"a string", func(ctx context.Context, rdb *goredis.Client) error { return rdb.Set(ctx, key, "x", 0).Err() }},
		{"a list", func(ctx context.Context, rdb *goredis.Client) error { return rdb.LPush(ctx, key, "x").Err() }},
		{"another hash", func(ctx context.Context, rdb *goredis.Client) error { return rdb.HSet(ctx, key, "x", "y").Err() }},
		{"an older version", func(ctx context.Context, rdb *goredis.Client) error {
			return rdb.HSet(ctx, key, "m", strings.Replace(good, "1", "0", 1), "b", "px").Err()
		}},
		{"a head that ends early", func(ctx context.Context, rdb *goredis.Client) error {
			return rdb.HSet(ctx, key, "m", "1 100 1750000000000000 0 \"tag\" ", "b", "px").Err()
		}},
		{"a body of something else", func(ctx context.Context, rdb *goredis.Client) error {
			return rdb.HSet(ctx, key, "m", good, "b", "px").Err()
		}},
		{"no body", func(ctx context.Context, rdb *goredis.Client) error { return rdb.HSet(ctx, key, "m", good).Err() }},
		{"a body that does not decompress", func(ctx context.Context, rdb *goredis.Client) error {
			return rdb.HSet(ctx, key, "m", good, "b", "zzzz").Err()
		}},
		{"a corrupt entry of a great height", func(ctx context.Context, rdb *goredis.Client) error {
			return rdb.HSet(ctx, key, "m", strings.Replace(good, "100", "9000", 1), "b", "px").Err()
		}},
		{"a corrupt entry of a low height", func(ctx context.Context, rdb *goredis.Client) error {
			return rdb.HSet(ctx, key, "m", strings.Replace(good, "100", "9", 1), "b", "px").Err()
		}},
		{"a status below those of HTTP", stored(99)},
		{"a status above those of HTTP", stored(600)},
		{"a status that has no body", stored(304)},
		{"a lease of another type", func(ctx context.Context, rdb *goredis.Client) error { return rdb.LPush(ctx, key+":l", "x").Err() }},
	}
	addr := startRedis(t).addr
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect.NoError(t, client(t, addr).FlushAll(t.Context()).Err())
			expect.NoError(t, tt.put(t.Context(), client(t, addr)))
			a, b := replica(t, addr, redis.Options{}), replica(t, addr, redis.Options{})
			if found := a.Load(t.Context(), []string{"k"}); len(found) != 0 {
				t.Errorf("Load found %v, want nothing", found)
			}
			q := cache.Query{Key: "k", Policy: live, Tip: 100}
			if got := tell(mustGet(t, a, q, answer(100, page)), nil); !strings.HasPrefix(got, "miss uri-miss") {
				t.Errorf("got %.60s, want a miss", got)
			}
			idle(t, a)
			if got := mustGet(t, b, q, nil); got.Store != "shared" || !bytes.Equal(got.Entry.Body, page) {
				t.Errorf("got %.60s, want the new entry from the shared store", tell(got, nil))
			}
		})
	}
}

func TestContentSurvivesTheSharedStore(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	open := func() *cache.Cache { return named(t, store.Addr(), cache.Options{}, redis.Options{}) }
	tests := []struct {
		name    string
		content *cache.Content
	}{
		{"a page", cache.NewContent(200, "application/json", "</next>; rel=\"next\"", page, 42)},
		{"an empty body", cache.NewContent(404, "", "", nil, 0)},
		{"what does not compress", cache.NewContent(200, "application/octet-stream", "", noise(1000), 1<<63)},
		{"a type with a newline", cache.NewContent(200, "a\nb", "\n", []byte("x"), 1)},
	}
	a, b := open(), open()
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := cache.Query{Key: fmt.Sprint(i), Policy: live, Tip: 100}
			now := time.Now()
			sent := &cache.Entry{Content: tt.content, Height: 100, ReadAt: now, Expires: now.Add(time.Hour)}
			mustGet(t, a, q, func(context.Context, *cache.Entry) (*cache.Entry, error) { return sent, nil })
			idle(t, a)
			got := mustGet(t, b, q, nil).Entry
			if got.ETag != tt.content.ETag || got.Status != tt.content.Status || got.Type != tt.content.Type ||
				got.Link != tt.content.Link || got.Source != tt.content.Source || !bytes.Equal(got.Body, tt.content.Body) {
				t.Errorf("got %+v, want %+v", got.Content, tt.content)
			}
			if !got.Expires.Equal(sent.Expires.Truncate(time.Microsecond)) || got.Height != 100 {
				t.Errorf("holds at %d until %v, want 100 until %v", got.Height, got.Expires, sent.Expires)
			}
		})
	}
}

// noise is a body without a pattern.
func noise(n int) []byte {
	b, x := make([]byte, n), uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func TestLoadAndSave(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	open := func() *cache.Cache { return named(t, store.Addr(), cache.Options{}, redis.Options{}) }
	a, b := open(), open()
	gone := entry(0, "gone")
	gone.Expires = time.Now().Add(-time.Second)
	a.Save(t.Context(), map[string]*cache.Entry{"one": entry(0, "1"), "two": entry(0, "2"), "gone": gone}, time.Hour)

	for name, c := range map[string]*cache.Cache{"the same replica": a, "another replica": b} {
		found := c.Load(t.Context(), []string{"one", "two", "three", "gone"})
		if len(found) != 2 || string(found["one"].Body) != "1" || string(found["two"].Body) != "2" {
			t.Errorf("%s loads %v, want one and two", name, found)
		}
	}
	for _, key := range store.Keys() {
		if store.TTL(key) != time.Hour {
			t.Errorf("%s expires in %v, want an hour", key, store.TTL(key))
		}
	}
	alone := open()
	store.Close()
	if found := alone.Load(t.Context(), []string{"one"}); len(found) != 0 {
		t.Errorf("without the store %v was found, want nothing", found)
	}
	alone.Save(t.Context(), map[string]*cache.Entry{"one": entry(0, "1")}, time.Hour)
	if found := alone.Load(t.Context(), []string{"one"}); len(found) != 1 {
		t.Error("cached entry not served from memory without the store")
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := named(t, miniredis.RunT(t).Addr(), cache.Options{Registerer: reg}, redis.Options{})
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	for range 3 {
		mustGet(t, c, q, answer(100, page))
	}
	_, _ = c.Get(t.Context(), cache.Query{Key: "other", Policy: live, Tip: 100}, down)

	got := map[string]float64{}
	families, err := reg.Gather()
	expect.NoError(t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"tipcache_cache_requests_total hit memory": 2,
		"tipcache_cache_requests_total miss none":  1,
		"tipcache_cache_requests_total error none": 1,
		"tipcache_cache_flights_total":             2,
		"tipcache_cache_origin_calls_total":        2,
		"tipcache_cache_origin_errors_total":       1,
		"tipcache_cache_memory_entries":            1,
		"tipcache_cache_shared_breaker_state":      0,
	}
	for name, n := range want {
		if v, ok := got[name]; !ok || v != n {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, n)
		}
	}
	if _, err := cache.New(cache.Options{Registerer: reg}); err == nil {
		t.Error("second cache with the same metrics: error = nil, want one")
	}
	expect.NoError(t, c.Close())
	newCache(t, cache.Options{Registerer: reg})
}
