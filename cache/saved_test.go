package cache_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestSavedEntriesAreLoadedByAllReplicas(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	open := func() *cache.Cache { return newReplica(t, store.Addr(), cache.Options{}, redis.Options{}) }
	a, b := open(), open()
	a.Save(t.Context(), map[string]*cache.Entry{"one": entry(0, "1"), "two": entry(0, "2")}, time.Hour)

	for name, c := range map[string]*cache.Cache{"the same replica": a, "another replica": b} {
		found := c.Load(t.Context(), []string{"one", "two", "three"})
		if len(found) != 2 || string(found["one"].Body) != "1" || string(found["two"].Body) != "2" {
			t.Errorf("Load of %s = %v, want one and two", name, found)
		}
	}
	for _, key := range store.Keys() {
		expect.Equal(t, store.TTL(key), time.Hour, "expiry of %s", key)
	}
	alone := open()
	store.Close()
	if found := alone.Load(t.Context(), []string{"one"}); len(found) != 0 {
		t.Errorf("Load without the store = %v, want nothing", found)
	}
	alone.Save(t.Context(), map[string]*cache.Entry{"one": entry(0, "1")}, time.Hour)
	if found := alone.Load(t.Context(), []string{"one"}); len(found) != 1 {
		t.Errorf("Load from memory without the store = %v, want one", found)
	}
}

func TestSavedEntryReplacesOneOfReplicaWhoseClockIsAhead(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	open := func() *cache.Cache { return newReplica(t, store.Addr(), cache.Options{}, redis.Options{}) }
	ahead, b := open(), open()
	early := entry(0, "early")
	early.ReadAt = time.Now().Add(time.Hour)
	ahead.Save(t.Context(), map[string]*cache.Entry{"one": early}, time.Hour)
	b.Load(t.Context(), []string{"one"}) // into memory
	b.Save(t.Context(), map[string]*cache.Entry{"one": entry(0, "late")}, time.Hour)
	for name, c := range map[string]*cache.Cache{"the replica that saved it": b, "a third replica": open()} {
		if found := c.Load(t.Context(), []string{"one"}); found["one"] == nil || string(found["one"].Body) != "late" {
			t.Errorf("Load of %s = %v, want the entry saved last", name, found)
		}
	}
}

func TestOlderSavedEntryNeverReplacesNewerOne(t *testing.T) {
	older, newer := map[string]*cache.Entry{}, map[string]*cache.Entry{}
	var keys []string
	for i := range 10_000 {
		key := fmt.Sprint("saved", i)
		keys, older[key], newer[key] = append(keys, key), entry(0, "older"), entry(0, "newer")
	}
	want := func(t *testing.T, c *cache.Cache) {
		t.Helper()
		for key, e := range c.Load(t.Context(), keys) {
			if e.Content != newer[key].Content {
				t.Fatalf("%s = %s, want the entry saved last", key, e.Body)
			}
		}
	}
	t.Run("in SetNamespace", func(t *testing.T) {
		c := newCache(t, cache.Options{})
		c.Save(t.Context(), older, 0)
		var saving sync.WaitGroup
		saving.Go(func() {
			for c.Namespace() == "" {
				runtime.Gosched()
			}
			c.Save(t.Context(), newer, 0)
		})
		c.SetNamespace("story-1")
		saving.Wait()
		want(t, c)
	})
	t.Run("in Load", func(t *testing.T) {
		s := newFakeShared()
		c := newCache(t, cache.Options{Shared: s})
		s.load = func([]string) map[string]*cache.Entry {
			c.Save(t.Context(), newer, 0)
			return older
		}
		want(t, c)
		want(t, c)
	})
}

func TestSavedEntriesOutlastEpochs(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	saved := map[string]*cache.Entry{"saved": entry(0, "1")}
	load := func(c *cache.Cache) int { return len(c.Load(t.Context(), []string{"saved"})) }
	alone := newCache(t, cache.Options{})
	replica := func() *cache.Cache {
		return newSharedCache(t, redistest.Client(t, store.Addr()), cache.Options{}, redis.Options{})
	}
	first := replica()
	for name, c := range map[string]*cache.Cache{"a cache without Redis": alone, "a replica": first} {
		mustReadKeys(t, c, 100, 1)
		c.Save(t.Context(), saved, time.Hour) // while the chain is unknown
		for _, epoch := range []string{"story-1", "story-1#1"} {
			c.SetNamespace(epoch)
			expect.Equal(t, load(c), 1, "entries that %s loads in %s", name, epoch)
			expect.Equal(t, c.Entries(), 1, "entries in the memory of %s in %s", name, epoch)
		}
	}
	starting := replica()
	expect.Equal(t, load(starting), 1, "entries that a replica loads while the chain is unknown")
	purged, err := starting.PurgeKeys(t.Context(), cache.Selection{})
	if want := (cache.Purged{Memory: 1, Shared: 1}); err != nil || purged != want {
		t.Errorf("PurgeKeys while the chain is unknown = %+v, %v; want %+v", purged, err, want)
	}
	expect.Equal(t, load(starting), 0, "entries loaded after a purge while the chain is unknown")
	starting.Save(t.Context(), saved, time.Hour)
	purged, err = first.PurgeKeys(t.Context(), cache.Selection{})
	if want := (cache.Purged{Memory: 1, Shared: 1, Notified: true}); err != nil || purged != want {
		t.Errorf("PurgeKeys = %+v, %v; want %+v", purged, err, want)
	}
	expect.Equal(t, load(first), 0, "entries loaded after a purge")
}
