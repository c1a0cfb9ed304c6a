package cache_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestStartingReplicaPreloadsMostUsedEntries(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	start := func(interval time.Duration) *cache.Cache {
		return named(t, store.Addr(), cache.Options{HotInterval: interval}, redis.Options{})
	}
	const keys = 600 // more than one round trip
	mustServe(t, start(20*time.Millisecond), 100, keys)
	expect.Eventually(t, "the keys are noted", func() bool {
		noted, _ := store.ZMembers("tipcache:1:hot:{story-1}")
		return len(noted) == keys
	})
	var other *cache.Cache
	expect.Eventually(t, "all are taken over within the time for that", func() bool {
		other = start(time.Hour)
		expect.Eventually(t, "it has taken over", func() bool { return !other.Warming() })
		return metric(t, other, "warmed_total") == keys
	})
	for i := range keys {
		q := cache.Query{Key: fmt.Sprint("k", i), Policy: live, Tip: 100}
		if res := mustGet(t, other, q, answer(100, []byte("anew"))); res.Store != "memory" || string(res.Entry.Body) == "anew" {
			t.Fatalf("%s is %q from %q, want the preloaded entry from memory", q.Key, res.Entry.Body, res.Store)
		}
	}
}

func TestReplicaPreloadsAtMostHalfItsMemory(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	first := named(t, store.Addr(), cache.Options{HotInterval: 20 * time.Millisecond}, redis.Options{})
	entries := map[string]*cache.Entry{}
	for i := range 2000 {
		entries[fmt.Sprint("k", i)] = entry(100, "body")
	}
	first.Save(t.Context(), entries, time.Hour)
	expect.Eventually(t, "the keys are noted", func() bool {
		noted, _ := store.ZMembers("tipcache:1:hot:{story-1}")
		return len(noted) == 2000
	})
	expect.Eventually(t, "some are taken over within the time for that", func() bool {
		small := named(t, store.Addr(), cache.Options{MemoryBytes: 512 << 10}, redis.Options{})
		expect.Eventually(t, "it has taken over", func() bool { return !small.Warming() })
		n := metric(t, small, "warmed_total")
		if n > 900 {
			t.Fatalf("%d entries were preloaded, want at most 900", n)
		}
		return n > 0
	})
}

func TestSingleReplicaIsReadyAtOnce(t *testing.T) {
	if c := newCache(t, cache.Options{}); c.Warming() {
		t.Error("waiting for other replicas, but there are none")
	}
}

func TestSilentSharedStoreDoesNotDelayStart(t *testing.T) {
	way := startProxy(t, miniredis.RunT(t).Addr())
	way.stall()
	rdb := client(t, way.addr)
	rdb.Options().ReadTimeout = 100 * time.Millisecond // a subscription that begins ends with it
	c := sharing(t, rdb, cache.Options{}, redis.Options{Timeout: 50 * time.Millisecond})
	c.SetNamespace("story-1")
	expect.Eventually(t, "it is ready", func() bool { return !c.Warming() })
}
