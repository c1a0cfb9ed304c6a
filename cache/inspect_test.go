package cache_test

import (
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestInspectionPredictsOutcomeOfGet(t *testing.T) {
	rdb := redistest.Client(t, startRedis(t).addr)
	now := time.Now() // does not advance, because a failure is remembered for a second
	a, b := newSharedCache(t, rdb, cache.Options{Now: func() time.Time { return now }}, redis.Options{}), startReplicaOf(t, rdb, "story-1", redis.Options{})
	a.SetNamespace("story-1")
	at := func(tip, minHeight int64) cache.Query {
		return cache.Query{Key: "k", Policy: live, Tip: tip, MinHeight: minHeight}
	}
	mustGet(t, a, at(100, 0), answer(100, page))
	waitForIdle(t, a)
	steps := []struct {
		name    string
		replica *cache.Cache
		q       cache.Query
		want    string
	}{
		{"in memory and fresh", a, at(101, 0), "hit memory"},
		{"in memory and stale", a, at(105, 0), "miss"},
		{"in memory and too old", a, at(150, 0), "miss"},
		{"in memory and below MinHeight", a, at(101, 101), "miss"},
		{"only in the shared store, fresh", b, at(101, 0), "hit shared"},
		{"only in the shared store, stale", b, at(105, 0), "miss"},
		{"only in the shared store, too old", b, at(150, 0), "miss"},
		{"nowhere", a, cache.Query{Key: "other", Policy: live, Tip: 100}, "miss"},
	}
	for _, s := range steps {
		expect.Equal(t, forecast(s.replica.Inspect(t.Context(), s.q, nil)), s.want, "forecast of a key %s", s.name)
	}
	mustGet(t, a, at(105, 0), down)
	expect.Equal(t, forecast(a.Inspect(t.Context(), at(105, 0), nil)), "stale memory", "forecast of a stale key after a failure")
	mustGet(t, a, at(150, 0), down)
	i := a.Inspect(t.Context(), at(150, 0), nil)
	expect.Equal(t, forecast(i), "stale_error memory", "forecast of a key that is too old after a failure")
	expect.ErrorIs(t, i.LastFailure, errDown, "last failure")
}

// forecast returns the predicted outcome and the store of the entry.
func forecast(i cache.Inspection) string {
	if i.Store == "" {
		return string(i.Forecast)
	}
	return fmt.Sprintf("%v %s", i.Forecast, i.Store)
}

func TestInspectionChangesNothing(t *testing.T) {
	rdb := redistest.Client(t, startRedis(t).addr)
	c, cold := startReplicaOf(t, rdb, "story-1", redis.Options{}), startReplicaOf(t, rdb, "story-1", redis.Options{})
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	mustGet(t, c, q, answer(100, page))
	waitForIdle(t, c)
	key := rdb.Keys(t.Context(), "*").Val()[0]
	rdb.PExpire(t.Context(), key, time.Minute)
	before := metric(t, c, "requests_total") + metric(t, c, "flights_total")
	for _, tip := range []int64{100, 105, 150, 1000} {
		q.Tip = tip
		i := c.Inspect(t.Context(), q, nil)
		if i.Shared.Expiry <= 0 || i.Shared.Expiry > time.Minute || i.Lease != 0 {
			t.Errorf("at tip %d: expiry = %v, lease = %v; want at most 1m, 0", tip, i.Shared.Expiry, i.Lease)
		}
	}
	cold.Inspect(t.Context(), q, nil)
	expect.Equal(t, metric(t, c, "requests_total")+metric(t, c, "flights_total"), before, "requests and flights")
	expect.Equal(t, metric(t, cold, "memory_entries"), 0, "entries of the cold replica")
	expect.Equal(t, rdb.DBSize(t.Context()).Val(), 1, "keys in Redis")
}

func TestInspectionReportsLeaseOfAnotherReplica(t *testing.T) {
	addr, o := startRedis(t).addr, redis.Options{Lease: time.Hour} // a busy machine must not lose it
	a, b := startReplica(t, addr, o), startReplica(t, addr, o)
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	answers, _ := holdLease(t, a, q)
	if i := b.Inspect(t.Context(), q, nil); i.Lease <= 0 || i.Lease > o.Lease {
		t.Errorf("lease = %v, want more than 0 and at most %v", i.Lease, o.Lease)
	}
	answers <- nil
	expect.EventuallyEqual(t, "the lease is released", func() time.Duration { return b.Inspect(t.Context(), q, nil).Lease }, 0)
}

func TestInspectionReportsFailingSharedStore(t *testing.T) {
	s := startRedis(t)
	rdb := redistest.Client(t, s.addr)
	c := startReplicaOf(t, rdb, "story-1", redis.Options{})
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	const key = "tipcache:2:{story-1:k}"
	for _, fault := range []struct {
		name  string
		begin func()
	}{
		{"corrupt entry", func() { rdb.HSet(t.Context(), key, "m", "1 100 1 0 \"x\" 200 0\n\x00\x00", "b", "?") }},
		{"key of another type", func() { rdb.Del(t.Context(), key); rdb.Set(t.Context(), key, "?", goredis.KeepTTL) }},
		{"Redis is down", s.kill},
	} {
		fault.begin()
		if i := c.Inspect(t.Context(), q, nil); i.SharedErr == nil || i.Shared.Entry != nil || i.Forecast != cache.Miss {
			t.Errorf("%s: Inspect = %+v, want SharedErr, no shared entry and a miss", fault.name, i)
		}
	}
	alone := newCache(t, cache.Options{})
	if i := alone.Inspect(t.Context(), q, nil); i.SharedErr != nil || i.SharedState != "off" || i.Namespace != "" {
		t.Errorf("without a shared store: Inspect = %+v, want no SharedErr, state off, no namespace", i)
	}
}
