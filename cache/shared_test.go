package cache_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
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
