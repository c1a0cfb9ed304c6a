package cache_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

// took collects what a cache tells that it has taken.
type took struct {
	mu  sync.Mutex
	all []cache.NewEntry
}

func (tk *took) note(t cache.NewEntry) {
	tk.mu.Lock()
	defer tk.mu.Unlock()
	tk.all = append(tk.all, t)
}

// since gives what was taken lately, and begins anew.
func (tk *took) since() []cache.NewEntry {
	tk.mu.Lock()
	defer tk.mu.Unlock()
	all := tk.all
	tk.all = nil
	return all
}

func TestAuditReceivesEachNewEntryOnce(t *testing.T) {
	store := miniredis.RunT(t)
	var tk took
	start := func(o cache.Options) *cache.Cache {
		c := sharing(t, client(t, store.Addr()), o, redis.Options{})
		c.SetNamespace("story-1")
		return c
	}
	origin := func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
		if r := cache.ReadingOf(ctx); r != nil {
			r.Node = "a node"
		}
		return answer(100, page)(ctx, prev)
	}
	audited := cache.Query{Key: "k", Policy: live, Tip: 100, Audit: true}
	want := func(when string, n int, shared bool, by string) {
		t.Helper()
		got := tk.since()
		if len(got) != n || n == 1 && (got[0].Key != "k" || got[0].Entry.Height != 100 || got[0].Shared != shared || got[0].Node != by) {
			t.Errorf("%s: reported %+v, want %d entries: k at 100 by %q, shared %t", when, got, n, by, shared)
		}
	}

	first := start(cache.Options{OnNewEntry: tk.note, HotInterval: 100 * time.Millisecond})
	mustGet(t, first, cache.Query{Key: "other", Policy: live, Tip: 100}, origin)
	want("a query without an audit", 0, false, "")
	mustGet(t, first, audited, origin)
	want("of the origin", 1, false, "a node")
	mustGet(t, first, audited, origin)
	want("of memory", 0, false, "")
	expect.Eventually(t, "Redis gives it to another replica", func() bool {
		other := start(cache.Options{OnNewEntry: tk.note})
		expect.Eventually(t, "it has taken over", func() bool { return !other.Warming() })
		_, ok := other.Fresh(audited, time.Now(), nil)
		if ok {
			t.Error("preloaded entry was served before the audit received it")
		}
		if mustGet(t, other, audited, origin).Outcome != cache.Hit {
			tk.since()
			return false
		}
		want("of Redis", 1, true, "")
		if _, ok := other.Fresh(audited, time.Now(), nil); !ok {
			t.Error("entry not served from memory afterwards")
		}
		mustGet(t, other, audited, origin)
		want("of memory again", 0, true, "")
		return true
	})
	expect.Eventually(t, "the key is noted as hot", func() bool {
		noted, _ := store.ZMembers("tipcache:1:hot:{story-1}")
		return len(noted) == 2
	})
	expect.Eventually(t, "it is taken over at the start", func() bool {
		other := start(cache.Options{OnNewEntry: tk.note})
		expect.Eventually(t, "it has taken over", func() bool { return !other.Warming() })
		if metric(t, other, "warmed_total") != 2 {
			return false
		}
		mustGet(t, other, audited, origin)
		want("of what was taken over", 1, true, "")
		return true
	})
}
