package cache_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// waitForHotKeys waits until replicas have reported n hot keys.
func waitForHotKeys(t *testing.T, store *miniredis.Miniredis, n int) {
	t.Helper()
	expect.Eventually(t, "the hot keys are reported", func() bool {
		keys, _ := store.ZMembers("tipcache:1:hot:{story-1}")
		return len(keys) == n
	})
}

// waitForPreload waits until a replica has preloaded entries, or has exceeded the time for it.
func waitForPreload(t *testing.T, c *cache.Cache) {
	t.Helper()
	expect.Eventually(t, "the preload ends", func() bool { return !c.Warming() })
}

func TestStartingReplicaPreloadsMostUsedEntries(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	start := func(interval time.Duration) *cache.Cache {
		return newReplica(t, store.Addr(), cache.Options{HotInterval: interval}, redis.Options{})
	}
	const keys = 600 // more than one round trip
	mustReadKeys(t, start(20*time.Millisecond), 100, keys)
	waitForHotKeys(t, store, keys)
	var other *cache.Cache
	expect.Eventually(t, "all entries are preloaded within the time for it", func() bool {
		other = start(time.Hour)
		waitForPreload(t, other)
		return metric(t, other, "warmed_total") == keys
	})
	for i := range keys {
		q := cache.Query{Key: fmt.Sprint("k", i), Policy: live, Tip: 100}
		if res := mustGet(t, other, q, answer(100, []byte("read again"))); res.Store != "memory" || string(res.Entry.Body) == "read again" {
			t.Fatalf("%s is %q from %q, want the preloaded entry from memory", q.Key, res.Entry.Body, res.Store)
		}
	}
}

// 256 bodies of the longest hot entries took longer than the timeout of Redis, which ended the preload.
func TestPreloadReadsAtMost8MiBAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const longest = 256 << 10 // bytes of a hot entry's body
		s, got := newFakeShared(), 0
		for i := range 1000 {
			s.hotKeys = append(s.hotKeys, fmt.Sprint("k", i))
		}
		s.load = func(keys []string) map[string]*cache.Entry {
			if bytes := len(keys) * longest; bytes > 8<<20 {
				t.Errorf("bytes read at once = %d, want at most 8 MiB", bytes)
			}
			got += len(keys)
			return nil
		}
		waitForPreload(t, newCacheWith(t, s, cache.Options{}))
		expect.Equal(t, got, len(s.hotKeys), "keys read")
	})
}

func TestReplicaPreloadsAtMostHalfItsMemory(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	first := newReplica(t, store.Addr(), cache.Options{HotInterval: 20 * time.Millisecond}, redis.Options{})
	mustReadKeys(t, first, 100, 2000)
	waitForHotKeys(t, store, 2000)
	expect.Eventually(t, "some entries are preloaded within the time for it", func() bool {
		small := newReplica(t, store.Addr(), cache.Options{MemoryBytes: 512 << 10}, redis.Options{})
		waitForPreload(t, small)
		n := metric(t, small, "warmed_total")
		if n > 900 {
			t.Fatalf("preloaded entries = %d, want at most 900", n)
		}
		return n > 0
	})
}

func TestHotKeysAreReportedInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeShared()
		reports := make(chan []cache.HotKey, 4)
		s.saveHot = func(keys []cache.HotKey) { reports <- keys }
		c := newCacheWith(t, s, cache.Options{HotInterval: time.Second})
		want := map[string]int{}
		for i := range 10_000 {
			want[fmt.Sprint("k", i)] = 1
		}
		mustReadKeys(t, c, 100, len(want))
		got := map[string]int{}
		for range 3 {
			keys := <-reports
			if len(keys) > 4096 {
				t.Errorf("keys in a report = %d, want at most 4096", len(keys))
			}
			for _, key := range keys {
				got[key.Key]++
			}
		}
		expect.NoDiff(t, got, want, "reports of each key in three rounds")
	})
}

// A starting replica could not preload saved entries, because they belong to no chain.
func TestLongAndSavedEntriesAreNotReportedAsHot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeShared()
		reports := make(chan []cache.HotKey, 1)
		s.saveHot = func(keys []cache.HotKey) { reports <- keys }
		c := newCacheWith(t, s, cache.Options{HotInterval: time.Second})
		for key, body := range map[string][]byte{"long": make([]byte, 1<<20), "short": page} {
			mustGet(t, c, cache.Query{Key: key, Policy: live, Tip: 100}, answer(100, body))
		}
		c.Save(t.Context(), map[string]*cache.Entry{"saved": entry(0, "body")}, 0)
		expect.NoDiff(t, <-reports, []cache.HotKey{{Key: "short"}}, "reported keys")
	})
}

func TestSingleReplicaIsReadyAtOnce(t *testing.T) {
	if c := newCache(t, cache.Options{}); c.Warming() {
		t.Error("Warming without a shared store = true, want false")
	}
}

func TestSilentSharedStoreDoesNotDelayStart(t *testing.T) {
	link := startProxy(t, miniredis.RunT(t).Addr())
	link.stall()
	rdb := redistest.Client(t, link.addr)
	rdb.Options().ReadTimeout = 100 * time.Millisecond // limits the start of a subscription
	c := newSharedCache(t, rdb, cache.Options{}, redis.Options{Settings: redis.Settings{Timeout: 50 * time.Millisecond}})
	c.SetNamespace("story-1")
	waitForPreload(t, c)
}
