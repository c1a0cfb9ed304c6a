package cache_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

// entryLog records the entries that caches pass to OnNewEntry.
type entryLog struct {
	mu      sync.Mutex
	entries []cache.NewEntry
}

func (l *entryLog) add(e cache.NewEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
}

// drain returns the entries recorded since the last call.
func (l *entryLog) drain() []cache.NewEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := l.entries
	l.entries = nil
	return entries
}

func TestAuditReceivesEachNewEntryOnce(t *testing.T) {
	store := miniredis.RunT(t)
	var log entryLog
	start := func(interval time.Duration) *cache.Cache {
		return newReplica(t, store.Addr(), cache.Options{OnNewEntry: log.add, HotInterval: interval}, redis.Options{})
	}
	origin := func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
		if r := cache.ReadingOf(ctx); r != nil {
			r.Node = "a node"
		}
		return answer(100, page)(ctx, prev)
	}
	audited := cache.Query{Key: "k", Policy: live, Tip: 100, Audit: true}
	want := func(when string, n int, shared bool, node string) {
		t.Helper()
		got := log.drain()
		if len(got) != n || n == 1 && (got[0].Key != "k" || got[0].Entry.Height != 100 || got[0].Shared != shared || got[0].Node != node) {
			t.Errorf("%s: reported %+v, want %d entries: k at 100 from node %q, shared %t", when, got, n, node, shared)
		}
	}

	first := start(100 * time.Millisecond)
	mustGet(t, first, cache.Query{Key: "other", Policy: live, Tip: 100}, origin)
	want("query without an audit", 0, false, "")
	mustGet(t, first, audited, origin)
	want("read of the origin", 1, false, "a node")
	mustGet(t, first, audited, origin)
	want("hit in memory", 0, false, "")
	expect.Eventually(t, "another replica reads the entry from Redis", func() bool {
		other := start(0)
		waitForPreload(t, other)
		_, ok := other.Fresh(audited, time.Now(), nil)
		if ok {
			t.Error("preloaded entry was served before the audit received it")
		}
		if mustGet(t, other, audited, origin).Outcome != cache.Hit {
			log.drain()
			return false
		}
		want("read of Redis", 1, true, "")
		if _, ok := other.Fresh(audited, time.Now(), nil); !ok {
			t.Error("entry not served from memory afterwards")
		}
		mustGet(t, other, audited, origin)
		want("hit in memory after the read of Redis", 0, true, "")
		return true
	})
	waitForHotKeys(t, store, 2)
	expect.Eventually(t, "another replica preloads both entries", func() bool {
		other := start(0)
		waitForPreload(t, other)
		if metric(t, other, "warmed_total") != 2 {
			return false
		}
		mustGet(t, other, audited, origin)
		want("preloaded entry", 1, true, "")
		return true
	})
}

// A caller may request a key while a starting replica preloads it.
func TestPreloadDoesNotReportEntryAgain(t *testing.T) {
	first := entry(100, "first")
	for name, read := range map[string]*cache.Entry{"the same entry": first, "a newer entry": entry(101, "second")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				loaded := make(chan map[string]*cache.Entry)
				s := newFakeShared()
				s.hotKeys = []string{"k"}
				s.load = func([]string) map[string]*cache.Entry { return <-loaded }
				s.read = func() (*cache.Entry, error) { return read, nil }
				var log entryLog
				c := newCacheWith(t, s, cache.Options{OnNewEntry: log.add})
				q := cache.Query{Key: "k", Policy: live, Tip: 101, Audit: true}
				mustGet(t, c, q, down)
				expect.Equal(t, len(log.drain()), 1, "entries reported at the first request")
				loaded <- map[string]*cache.Entry{"k": {Content: first.Content, Height: first.Height, ReadAt: first.ReadAt}}
				waitForPreload(t, c)
				mustGet(t, c, q, down)
				expect.Equal(t, len(log.drain()), 0, "entries reported at the second request")
			})
		})
	}
}
