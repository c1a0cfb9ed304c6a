package cache_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A fresh entry in the shared store needs neither a flight nor a lease. A flight replaces an entry that is too old.
func TestStartingReplicaFindsEntriesOfOthers(t *testing.T) {
	store := miniredis.RunT(t)
	replica := func() *cache.Cache { return newReplica(t, store.Addr(), cache.Options{}, redis.Options{}) }
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	first := replica()
	mustGet(t, first, q, answer(100, []byte("a")))
	waitForIdle(t, first)

	second := replica()
	expect.Equal(t, describe(second.Get(t.Context(), q, originFunc(down))), "hit shared: a at 100", "result of the second replica")
	expect.Equal(t, metric(t, second, "flights_total"), 0, "flights of the second replica")

	q.Tip = 200
	third := replica()
	res := mustGet(t, third, q, answer(200, []byte("b")))
	if res.Outcome != cache.Miss || string(res.Entry.Body) != "b" || metric(t, third, "flights_total") != 1 {
		t.Errorf("third replica got %v: %s, %d flights; want miss: b, 1", res.Outcome, res.Entry.Body, metric(t, third, "flights_total"))
	}
}

func TestClosedCacheReadsOnlyMemory(t *testing.T) {
	store := miniredis.RunT(t)
	c := newReplica(t, store.Addr(), cache.Options{}, redis.Options{})
	expect.NoError(t, c.Close())
	before := store.CommandCount()
	if _, err := c.Get(t.Context(), cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, []byte("a"))); err == nil {
		t.Error("Get of a closed cache: error = nil, want one")
	}
	expect.Equal(t, store.CommandCount()-before, 0, "commands sent to the store")
}
