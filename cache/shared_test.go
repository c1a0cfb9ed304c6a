package cache_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// mustReadKeys reads n keys at the tip, and stops the test unless each result is the entry of the origin.
func mustReadKeys(t *testing.T, c *cache.Cache, tip int64, n int) {
	t.Helper()
	for i := range n {
		body := fmt.Sprint(tip, "-", i)
		res := mustGet(t, c, cache.Query{Key: fmt.Sprint("k", i), Policy: live, Tip: tip, MinHeight: tip}, answer(tip, []byte(body)))
		if string(res.Entry.Body) != body {
			t.Fatalf("body of k%d = %s, want %s", i, res.Entry.Body, body)
		}
	}
}

func TestFailedFlightReturnsNewerEntryOfAnotherReplica(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	a, b := newReplica(t, store.Addr(), cache.Options{}, redis.Options{}), newReplica(t, store.Addr(), cache.Options{}, redis.Options{})
	waitForMessages(t, a, b)
	q := cache.Query{Key: "k", Policy: byTheBlock, Tip: 100}
	mustGet(t, a, q, answer(100, page))
	waitForIdle(t, a)

	q.Tip = 110
	res := mustGet(t, a, q, func(context.Context, *cache.Entry) (*cache.Entry, error) {
		store.FlushAll() // the lease is lost, so the other replica reads the origin
		mustGet(t, b, q, answer(110, page))
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		expect.Eventually(t, "the replica receives the other's entry", func() bool {
			res, err := a.Get(canceled, q, originFunc(down))
			return err == nil && res.Entry.Height == 110
		})
		return nil, errDown
	})
	expect.Equal(t, res.Entry.Height, 110, "height")
}

func TestFailingSharedStoreDoesNotFailRequests(t *testing.T) {
	t.Parallel()
	// A miss has two operations. Few of them may wait for the store before its breaker opens.
	const misses, maxErrors = 100, 50
	failures := func(t *testing.T, c *cache.Cache) int {
		return metric(t, c, "shared_errors_total") - metric(t, c, "shared_errors_total", "unavailable")
	}

	t.Run("it is unreachable", func(t *testing.T) {
		t.Parallel()
		c := newReplica(t, "127.0.0.1:1", cache.Options{}, redis.Options{Settings: redis.Settings{Timeout: 100 * time.Millisecond}})
		mustReadKeys(t, c, 100, misses)
		if n := failures(t, c); c.SharedState() == "closed" || n == 0 || n > maxErrors {
			t.Errorf("breaker = %s after %d errors in %d misses, want not closed after 1 to %d", c.SharedState(), n, misses, maxErrors)
		}
	})
	t.Run("it accepts connections but does not reply", func(t *testing.T) {
		t.Parallel()
		link := startProxy(t, miniredis.RunT(t).Addr())
		link.stall()
		// Each trial of the open breaker connects again within the timeout. On a busy machine, that took more than 200 ms for a minute.
		c := newReplica(t, link.addr, cache.Options{}, redis.Options{Settings: redis.Settings{Timeout: 2 * time.Second}})
		mustReadKeys(t, c, 100, misses)
		if n := failures(t, c); n == 0 || n > maxErrors {
			t.Errorf("errors = %d in %d misses, want 1 to %d", n, misses, maxErrors)
		}
		link.heal()
		expect.EventuallyEqual(t, "state of the breaker", func() string {
			mustGet(t, c, cache.Query{Key: rand.Text(), Policy: live, Tip: 101}, answer(101, page))
			return c.SharedState()
		}, "closed")
	})
	t.Run("its connections break for a while", func(t *testing.T) {
		t.Parallel()
		s := startRedis(t)
		link := startProxy(t, s.addr)
		c := startReplica(t, link.addr, redis.Options{Settings: redis.Settings{Timeout: 300 * time.Millisecond}})
		mustReadKeys(t, c, 100, 5)
		link.cut()
		mustReadKeys(t, c, 101, 20)
		link.heal()
		other := startReplica(t, s.addr, redis.Options{})
		expect.Eventually(t, "another replica finds an entry that this one has stored", func() bool {
			q := cache.Query{Key: rand.Text(), Policy: live, Tip: 101}
			mustGet(t, c, q, answer(101, []byte("x")))
			waitForIdle(t, c)
			return describe(mustGet(t, other, q, answer(101, []byte("y"))), nil) == "hit shared: x at 101"
		})
	})
	t.Run("it is full", func(t *testing.T) {
		c := startReplica(t, startRedis(t, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction").addr, redis.Options{})
		mustReadKeys(t, c, 100, 20)
		if c.SharedState() != "closed" || metric(t, c, "shared_errors_total") == 0 {
			t.Errorf("breaker = %s after %d errors, want closed after at least 1, because the store replies", c.SharedState(), metric(t, c, "shared_errors_total"))
		}
	})
	t.Run("it has forgotten the scripts", func(t *testing.T) {
		addr := startRedis(t).addr
		c := startReplica(t, addr, redis.Options{})
		mustReadKeys(t, c, 100, 1)
		expect.NoError(t, redistest.Client(t, addr).ScriptFlush(t.Context()).Err())
		mustReadKeys(t, c, 101, 1)
		waitForIdle(t, c)
		other := startReplica(t, addr, redis.Options{})
		if res := mustGet(t, other, cache.Query{Key: "k0", Policy: live, Tip: 101}, nil); res.Store != "shared" || metric(t, c, "shared_errors_total") != 0 {
			t.Errorf("other replica got %s after %d errors, want the entry from the shared store after 0", describe(res, nil), metric(t, c, "shared_errors_total"))
		}
	})
}

func TestUnreadableEntryIsAMissAndOverwritten(t *testing.T) {
	t.Parallel()
	const key = "tipcache:2:{story-1:k}"
	// fields stores a hash at key.
	fields := func(values ...any) func(context.Context, *goredis.Client) error {
		return func(ctx context.Context, rdb *goredis.Client) error { return rdb.HSet(ctx, key, values...).Err() }
	}
	// status stores an entry that is valid except for its status.
	status := func(status int) func(context.Context, *goredis.Client) error {
		etag := cache.NewContent(status, "", "", []byte("x"), 0).ETag
		return fields("m", fmt.Sprintf("1 100 1750000000000000 0 %s %d 0\n\x00\x00", etag, status), "b", "px")
	}
	meta := "1 100 1750000000000000 0 \"tag\" 200 0\n\x00\x00" // of another body
	tests := []struct {
		name string
		put  func(ctx context.Context, rdb *goredis.Client) error
	}{
		{"a string", func(ctx context.Context, rdb *goredis.Client) error { return rdb.Set(ctx, key, "x", 0).Err() }},
		{"a list", func(ctx context.Context, rdb *goredis.Client) error { return rdb.LPush(ctx, key, "x").Err() }},
		{"another hash", fields("x", "y")},
		{"an older version", fields("m", strings.Replace(meta, "1", "0", 1), "b", "px")},
		{"truncated metadata", fields("m", "1 100 1750000000000000 0 \"tag\" ", "b", "px")},
		{"the body of another entry", fields("m", meta, "b", "px")},
		{"no body", fields("m", meta)},
		{"a body that does not decompress", fields("m", meta, "b", "zzzz")},
		{"a corrupt entry from a later block", fields("m", strings.Replace(meta, "100", "9000", 1), "b", "px")},
		{"a corrupt entry from an earlier block", fields("m", strings.Replace(meta, "100", "9", 1), "b", "px")},
		{"a status below 100", status(99)},
		{"a status above 599", status(600)},
		{"a status without a body", status(304)},
		{"a lease of another type", func(ctx context.Context, rdb *goredis.Client) error { return rdb.LPush(ctx, key+":l", "x").Err() }},
	}
	addr := startRedis(t).addr
	rdb := redistest.Client(t, addr)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect.NoError(t, rdb.FlushAll(t.Context()).Err())
			expect.NoError(t, tt.put(t.Context(), rdb))
			a, b := newReplica(t, addr, cache.Options{}, redis.Options{}), newReplica(t, addr, cache.Options{}, redis.Options{})
			if found, _ := newStore(t, rdb).Load(t.Context(), "story-1", "k"); len(found) != 0 {
				t.Errorf("Load = %v, want nothing", found)
			}
			q := cache.Query{Key: "k", Policy: live, Tip: 100}
			if got := describe(mustGet(t, a, q, answer(100, page)), nil); !strings.HasPrefix(got, "miss uri-miss") {
				t.Errorf("Get = %.60s, want a miss", got)
			}
			waitForIdle(t, a)
			if got := mustGet(t, b, q, nil); got.Store != "shared" || !bytes.Equal(got.Entry.Body, page) {
				t.Errorf("Get of the other replica = %.60s, want the new entry from the shared store", describe(got, nil))
			}
		})
	}
}

func TestSharedStoreReturnsEqualEntry(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	open := func() *cache.Cache { return newReplica(t, store.Addr(), cache.Options{}, redis.Options{}) }
	a, b := open(), open()
	for name, content := range map[string]*cache.Content{
		"a page":                     cache.NewContent(200, "application/json", "</next>; rel=\"next\"", page, 42),
		"an empty body":              cache.NewContent(404, "", "", nil, 0),
		"a body that is not smaller": cache.NewContent(200, "application/octet-stream", "", noise(1000), 1<<63),
		"a type with a newline":      cache.NewContent(200, "a\nb", "\n", []byte("x"), 1),
	} {
		t.Run(name, func(t *testing.T) {
			q := cache.Query{Key: name, Policy: live, Tip: 100}
			now := time.Now()
			sent := &cache.Entry{Content: content, Height: 100, ReadAt: now, Expires: now.Add(time.Hour)}
			mustGet(t, a, q, func(context.Context, *cache.Entry) (*cache.Entry, error) { return sent, nil })
			waitForIdle(t, a)
			got := mustGet(t, b, q, nil).Entry
			if got.ETag != content.ETag || got.Status != content.Status || got.Type != content.Type ||
				got.Link != content.Link || got.Source != content.Source || !bytes.Equal(got.Body, content.Body) {
				t.Errorf("content = %+v, want %+v", got.Content, content)
			}
			if !got.Expires.Equal(sent.Expires.Truncate(time.Microsecond)) || got.Height != 100 {
				t.Errorf("Height, Expires = %d, %v; want 100, %v", got.Height, got.Expires, sent.Expires)
			}
		})
	}
}

// noise returns a body that does not compress.
func noise(n int) []byte {
	b, x := make([]byte, n), uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func TestFailureReportedByOriginIsNotShared(t *testing.T) {
	t.Parallel()
	addr := startRedis(t).addr
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	for i := range 2 {
		c := startReplica(t, addr, redis.Options{Lease: time.Hour})
		var calls atomic.Int64
		res := mustGet(t, c, q, func(context.Context, *cache.Entry) (*cache.Entry, error) {
			calls.Add(1)
			e := entry(100, "the node failed")
			e.Failed = true
			return e, nil
		})
		waitForIdle(t, c)
		if calls.Load() != 1 || !res.Entry.Failed {
			t.Errorf("replica %d called its origin %d times and got Failed = %t, want 1, true", i, calls.Load(), res.Entry.Failed)
		}
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := newReplica(t, miniredis.RunT(t).Addr(), cache.Options{Registerer: reg}, redis.Options{})
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	for range 3 {
		mustGet(t, c, q, answer(100, page))
	}
	_, _ = c.Get(t.Context(), cache.Query{Key: "other", Policy: live, Tip: 100}, originFunc(down))

	for _, sample := range []struct {
		name, labels string
		want         float64
	}{
		{"tipcache_cache_requests_total", "hit|memory", 2},
		{"tipcache_cache_requests_total", "miss|none", 1},
		{"tipcache_cache_requests_total", "error|none", 1},
		{"tipcache_cache_flights_total", "", 2},
		{"tipcache_cache_origin_calls_total", "", 2},
		{"tipcache_cache_origin_errors_total", "", 1},
		{"tipcache_cache_memory_entries", "", 1},
		{"tipcache_cache_shared_breaker_state", "", 0},
	} {
		if got, ok := expect.Metrics(t, reg, sample.name)[sample.labels]; !ok || got != sample.want {
			t.Errorf("%s{%s} = %v, exists = %t; want %v", sample.name, sample.labels, got, ok, sample.want)
		}
	}
	if _, err := cache.New(cache.Options{Registerer: reg}); err == nil {
		t.Error("New with the registerer of another cache: error = nil, want one")
	}
	expect.NoError(t, c.Close())
	newCache(t, cache.Options{Registerer: reg})
}
