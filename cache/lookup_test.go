package cache_test

import (
	"context"
	"errors"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

// What other replicas have read is found without a flight, and so without the
// lease; what is too old is a flight's to replace.
func TestStartingReplicaFindsEntriesOfOthers(t *testing.T) {
	store := miniredis.RunT(t)
	replica := func() *cache.Cache { return named(t, store.Addr(), cache.Options{}, redis.Options{}) }
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	first := replica()
	mustGet(t, first, q, answer(100, []byte("a")))
	idle(t, first)

	nobody := func(context.Context, *cache.Entry) (*cache.Entry, error) { return nil, errors.New("asked") }
	started := replica()
	res := mustGet(t, started, q, nobody)
	if res.Outcome != cache.Hit || res.Store != "shared" || string(res.Entry.Body) != "a" {
		t.Errorf("got %s, want a hit of a in the shared store", tell(res, nil))
	}
	if n := metric(t, started, "flights_total"); n != 0 {
		t.Errorf("%d flights, want 0", n)
	}

	q.Tip, q.Key = 200, "k"
	late := replica()
	res = mustGet(t, late, q, answer(200, []byte("b")))
	if res.Outcome != cache.Miss || string(res.Entry.Body) != "b" || metric(t, late, "flights_total") != 1 {
		t.Errorf("got %v: %s, %d flights; want miss: b, 1", res.Outcome, res.Entry.Body, metric(t, late, "flights_total"))
	}
}

func TestClosedCacheReadsOnlyMemory(t *testing.T) {
	store := miniredis.RunT(t)
	c := named(t, store.Addr(), cache.Options{}, redis.Options{})
	expect.NoError(t, c.Close())
	before := store.CommandCount()
	if _, err := c.Get(t.Context(), cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, []byte("a"))); err == nil {
		t.Error("closed cache returned an entry")
	}
	if n := store.CommandCount() - before; n != 0 {
		t.Errorf("the store received %d commands, want 0", n)
	}
}
