package cache_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A judgement is a stored entry and a query for which its freshness is decided.
type judgement struct {
	entry *cache.Entry
	q     cache.Query
}

func (j judgement) String() string {
	return fmt.Sprintf("entry: status %d, height %d, read %v, expires %v\nquery: %+v", j.entry.Status, j.entry.Height, j.entry.ReadAt, j.entry.Expires, j.q)
}

// fresh reports whether the entry is fresh for the query, by a second implementation of the rules.
func (j judgement) fresh(now time.Time) bool {
	e, q, p := j.entry, j.q, j.q.Policy
	switch {
	case q.MaxHeight > 0 && e.Height > q.MaxHeight:
		return false
	case !e.Expires.IsZero() && !e.Expires.After(now):
		return false
	case p.Immutable && (e.Status == 200 || !p.ImmutableIfOK):
		return true
	case e.Height < q.MinHeight:
		return false
	case q.Tip > 0:
		return e.Height > 0 && q.Tip-e.Height <= p.FreshBlocks
	default:
		return now.Sub(e.ReadAt) <= p.Fresh
	}
}

// judgements returns all combinations of values that affect freshness.
func judgements(now time.Time) (all []judgement) {
	type kind struct{ immutable, onlyFound, stalePastExpires bool }
	for _, status := range []int{200, 404} {
		for _, kind := range []kind{{}, {immutable: true}, {immutable: true, onlyFound: true}, {stalePastExpires: true}} {
			for _, height := range []int64{0, 98, 99, 100, 120} {
				for _, age := range []time.Duration{-time.Minute, 2 * time.Second, 3 * time.Second} {
					for _, expires := range []time.Duration{-time.Second, 0, time.Second} {
						for _, tip := range []int64{0, 100} {
							for _, bounds := range [][2]int64{{}, {99, 0}, {0, 110}} {
								e := &cache.Entry{Content: cache.NewContent(status, "text/plain", "", []byte("stored"), 1), Height: height, ReadAt: now.Add(-age)}
								if expires != 0 {
									e.Expires = now.Add(expires)
								}
								q := cache.Query{Key: fmt.Sprint("k", len(all)), Tip: tip, MinHeight: bounds[0], MaxHeight: bounds[1], Policy: cache.Policy{
									FreshBlocks: 1, StaleBlocks: 4, ErrorBlocks: 9, Fresh: 2 * time.Second, Stale: 4 * time.Second,
									Immutable: kind.immutable, ImmutableIfOK: kind.onlyFound, StalePastExpires: kind.stalePastExpires, Keep: time.Hour,
								}}
								all = append(all, judgement{e, q})
							}
						}
					}
				}
			}
		}
	}
	return all
}

// Freshness is decided for a hit in memory, for an entry from Redis with or without an older one in memory, and for an
// inspection. All decisions must agree.
func TestAllFreshnessDecisionsAgree(t *testing.T) {
	t.Parallel()
	store, now := miniredis.RunT(t), time.Now().Truncate(time.Second)
	replica := func() *cache.Cache {
		return newReplica(t, store.Addr(), cache.Options{Now: func() time.Time { return now }}, redis.Options{})
	}
	writer, empty, behind := replica(), replica(), replica()
	expired := entry(0, "expired")
	expired.ReadAt, expired.Expires = time.Unix(1, 0), time.Unix(2, 0)
	served := func(c *cache.Cache, q cache.Query) bool {
		return string(mustGet(t, c, q, answer(100, []byte("read again"))).Entry.Body) == "stored"
	}
	all := judgements(now)
	stored, older := map[string]*cache.Entry{}, map[string]*cache.Entry{}
	for _, j := range all {
		stored[j.q.Key], older[j.q.Key] = j.entry, expired
	}
	writer.Save(t.Context(), stored, 0)
	shared := expect.Value(redis.New(redistest.Client(t, store.Addr()), redis.Options{Settings: redis.Settings{Timeout: time.Minute}}))(t)
	shared.Save(t.Context(), "story-1", stored, time.Hour)
	behind.Save(t.Context(), older, 0)
	judge := func(j judgement) {
		_, inMemory := writer.Fresh(j.q, now, nil)
		inspection := empty.Inspect(t.Context(), j.q, nil)
		for decision, got := range map[string]bool{
			"hit in memory":         inMemory,
			"inspection of memory":  writer.Inspect(t.Context(), j.q, nil).Memory.State == cache.Fresh,
			"inspection of Redis":   inspection.Shared.State == cache.Fresh,
			"inspection's forecast": inspection.Forecast == cache.Hit,
			"read of Redis":         served(empty, j.q),
			"flight":                served(behind, j.q),
		} {
			expect.Equal(t, got, j.fresh(now), "%s: fresh, for %v", decision, j)
		}
	}
	const workers = 60 // sequentially the test would wait for Redis twenty thousand times
	var running sync.WaitGroup
	for worker := range workers {
		running.Go(func() {
			for i := worker; i < len(all) && !t.Failed(); i += workers {
				judge(all[i])
			}
		})
	}
	running.Wait()
}

// Memory and the shared store keep the higher entry, and of equal or unknown heights the one that was read later.
func TestMemoryAndSharedStoreKeepSameEntry(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	writer := startReplica(t, store.Addr(), redis.Options{})
	shared := expect.Value(redis.New(redistest.Client(t, store.Addr()), redis.Options{Settings: redis.Settings{Timeout: time.Minute}}))(t)
	start := time.Now().Truncate(time.Second)
	type kept struct{ body, order string }
	wanted := map[string]kept{}
	for _, height := range [][2]int64{{0, 0}, {0, 100}, {100, 0}, {100, 100}, {99, 100}, {100, 99}, {120, 100}, {120, 0}, {100, 120}} {
		for _, later := range []time.Duration{-time.Second, 0, time.Second} {
			for _, maxHeight := range []int64{0, 110} {
				q := cache.Query{Key: fmt.Sprint("k", len(wanted)), Policy: cache.Policy{Keep: time.Hour}, Tip: 100_000, MaxHeight: maxHeight}
				first, second := entry(height[0], "first"), entry(height[1], "second")
				first.ReadAt, second.ReadAt = start, start.Add(later)
				want := "first"
				if height[0] > 0 && height[1] > height[0] ||
					(height[0] == height[1] || height[0] == 0 || height[1] == 0) && later >= 0 || maxHeight > 0 && height[0] > maxHeight {
					want = "second"
				}
				writer.Save(t.Context(), map[string]*cache.Entry{q.Key: first}, 0)
				shared.Save(t.Context(), "story-1", map[string]*cache.Entry{q.Key: first}, time.Hour)
				mustGet(t, writer, q, func(context.Context, *cache.Entry) (*cache.Entry, error) { return second, nil })
				wanted[q.Key] = kept{want, fmt.Sprintf("heights %v, second read %v later, MaxHeight %d", height, later, maxHeight)}
			}
		}
	}
	waitForIdle(t, writer)
	keys := slices.Collect(maps.Keys(wanted))
	inRedis := expect.Value(shared.Load(t.Context(), "story-1", keys...))(t)
	for name, found := range map[string]map[string]*cache.Entry{"memory": writer.Load(t.Context(), keys), "Redis": inRedis} {
		for key, want := range wanted {
			if got := found[key]; got == nil || string(got.Body) != want.body {
				t.Errorf("%s: entry in %s = %+v, want the %s", want.order, name, got, want.body)
			}
		}
	}
}
