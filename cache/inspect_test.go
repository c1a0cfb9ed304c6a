package cache_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestInspectionPredictsOutcomeOfGet(t *testing.T) {
	rdb := client(t, startRedis(t).addr)
	now := time.Now() // it stands still: a failure counts for a second
	a, b := sharing(t, rdb, cache.Options{Now: func() time.Time { return now }}, redis.Options{}), member(t, rdb, "story-1")
	a.SetNamespace("story-1")
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	down := func(context.Context, *cache.Entry) (*cache.Entry, error) { return nil, errDown }
	at := func(tip, least int64) cache.Query {
		later := q
		later.Tip, later.MinHeight = tip, least
		return later
	}
	mustGet(t, a, q, answer(100, page))
	idle(t, a)
	steps := []struct {
		name    string
		replica *cache.Cache
		q       cache.Query
		want    string
	}{
		{"in memory and fresh", a, at(101, 0), "hit memory"},
		{"in memory and stale", a, at(105, 0), "miss"},
		{"in memory and too old", a, at(150, 0), "miss"},
		{"too low for this caller", a, at(101, 101), "miss"},
		{"only in the shared store, fresh", b, at(101, 0), "hit shared"},
		{"only in the shared store, stale", b, at(105, 0), "miss"},
		{"only in the shared store, too old", b, at(150, 0), "miss"},
		{"nowhere", a, cache.Query{Key: "other", Policy: live, Tip: 100}, "miss"},
	}
	for _, s := range steps {
		if got := foretold(s.replica.Inspect(t.Context(), s.q)); got != s.want {
			t.Errorf("%s: %s, want %s", s.name, got, s.want)
		}
	}
	mustGet(t, a, at(105, 0), down)
	if got := foretold(a.Inspect(t.Context(), at(105, 0))); got != "stale memory" {
		t.Errorf("stale, after a failure: %s, want stale memory", got)
	}
	if _, err := a.Get(t.Context(), at(150, 0), down); err != nil {
		t.Fatal(err)
	}
	if i := a.Inspect(t.Context(), at(150, 0)); foretold(i) != "stale_error memory" || !errors.Is(i.LastFailure, errDown) {
		t.Errorf("after a failure: %s, last failure %v; want stale_error memory, %v", foretold(i), i.LastFailure, errDown)
	}
}

func foretold(i cache.Inspection) string {
	if i.Store == "" {
		return i.Forecast.String()
	}
	return fmt.Sprintf("%v %s", i.Forecast, i.Store)
}

func TestInspectionLeavesNoTrace(t *testing.T) {
	rdb := client(t, startRedis(t).addr)
	c, cold := member(t, rdb, "story-1"), member(t, rdb, "story-1")
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	mustGet(t, c, q, answer(100, page))
	idle(t, c)
	key := rdb.Keys(t.Context(), "*").Val()[0]
	rdb.PExpire(t.Context(), key, time.Minute)
	before := metric(t, c, "requests_total") + metric(t, c, "flights_total")
	for _, tip := range []int64{100, 105, 150, 1000} {
		q.Tip = tip
		i := c.Inspect(t.Context(), q)
		if i.Shared.Expiry <= 0 || i.Shared.Expiry > time.Minute || i.Lease != 0 {
			t.Errorf("at %d: expires in %v, lease %v; want at most 1m, 0", tip, i.Shared.Expiry, i.Lease)
		}
	}
	cold.Inspect(t.Context(), q)
	after := metric(t, c, "requests_total") + metric(t, c, "flights_total")
	if kept := metric(t, cold, "memory_entries"); after != before || kept != 0 {
		t.Errorf("requests and flights = %d, want %d; entries in the cold replica = %d, want 0", after, before, kept)
	}
	if n := rdb.DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("Redis has %d keys, want 1", n)
	}
}

func TestInspectionNamesReplicaThatReadsOrigin(t *testing.T) {
	rdb := client(t, startRedis(t).addr)
	a, b := member(t, rdb, "story-1"), member(t, rdb, "story-1")
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	asked, goOn := make(chan struct{}), make(chan struct{})
	go func() {
		_, _ = a.Get(t.Context(), q, func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
			close(asked)
			<-goOn
			return answer(100, page)(ctx, prev)
		})
	}()
	<-asked
	if i := b.Inspect(t.Context(), q); i.Lease <= 0 || i.Lease > 3*time.Second {
		t.Errorf("lease = %v, want at most 3s", i.Lease)
	}
	close(goOn)
	expect.Eventually(t, "the lease is given back", func() bool { return b.Inspect(t.Context(), q).Lease == 0 })
}

func TestInspectionReportsFailingSharedStore(t *testing.T) {
	s := startRedis(t)
	rdb := client(t, s.addr)
	c := member(t, rdb, "story-1")
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	spoil := map[string]func(key string){
		"corrupt": func(key string) { rdb.HSet(t.Context(), key, "m", "1 100 1 0 \"x\" 200 0\n\x00\x00", "b", "?") },
		"foreign": func(key string) { rdb.Del(t.Context(), key); rdb.Set(t.Context(), key, "?", goredis.KeepTTL) },
		"dead":    func(string) { s.kill() },
	}
	for _, name := range []string{"corrupt", "foreign", "dead"} {
		spoil[name]("tipcache:1:{story-1:k}")
		if i := c.Inspect(t.Context(), q); i.SharedErr == nil || i.Shared.Entry != nil || i.Forecast != cache.Miss {
			t.Errorf("%s: got %+v, want SharedErr, no shared entry and a miss", name, i)
		}
	}
	alone := newCache(t, cache.Options{})
	if i := alone.Inspect(t.Context(), q); i.SharedErr != nil || i.SharedState != "off" || i.Namespace != "" {
		t.Errorf("without a shared store: got %+v, want no SharedErr, state off, no namespace", i)
	}
}
