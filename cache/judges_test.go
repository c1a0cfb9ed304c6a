package cache_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
)

// A judgement is a stored entry and the query that it is judged for.
type judgement struct {
	entry *cache.Entry
	q     cache.Query
}

func (j judgement) String() string {
	return fmt.Sprintf("entry: status %d, height %d, read %v, expires %v\nquery: %+v", j.entry.Status, j.entry.Height, j.entry.ReadAt, j.entry.Expires, j.q)
}

// fresh says in the plainest words when an entry is the answer.
func (j judgement) fresh(now time.Time) bool {
	e, q, p := j.entry, j.q, j.q.Policy
	switch {
	case e.Height < q.MinHeight, q.MaxHeight > 0 && e.Height > q.MaxHeight:
		return false
	case !e.Expires.IsZero() && !e.Expires.After(now):
		return false
	case p.Immutable && (e.Status == 200 || !p.ImmutableIfOK):
		return true
	case q.Tip > 0:
		return e.Height > 0 && q.Tip-e.Height <= p.FreshBlocks
	default:
		return now.Sub(e.ReadAt) <= p.Fresh
	}
}

// judgements are all combinations of what a judge looks at.
func judgements(now time.Time) iter.Seq[judgement] {
	type kind struct{ immutable, onlyFound, stalePastExpires bool }
	return func(yield func(judgement) bool) {
		n := 0
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
									q := cache.Query{Tip: tip, MinHeight: bounds[0], MaxHeight: bounds[1], Policy: cache.Policy{
										FreshBlocks: 1, StaleBlocks: 4, ErrorBlocks: 9, Fresh: 2 * time.Second, Stale: 4 * time.Second,
										Immutable: kind.immutable, ImmutableIfOK: kind.onlyFound, StalePastExpires: kind.stalePastExpires, Keep: time.Hour,
									}}
									n++
									q.Key = fmt.Sprint("k", n)
									if !yield(judgement{e, q}) {
										return
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

// Freshness is judged when memory is looked into, when an entry comes from the shared
// store, with an older one in memory or without, and when an operator asks. An entry
// is fresh for all of them or for none.
func TestAllFreshnessDecisionsAgree(t *testing.T) {
	t.Parallel()
	store, now := miniredis.RunT(t), time.Now().Truncate(time.Second)
	replica := func() *cache.Cache {
		return named(t, store.Addr(), cache.Options{Now: func() time.Time { return now }}, redis.Options{})
	}
	writer, starting, behind := replica(), replica(), replica()
	useless := entry(0, "useless")
	useless.ReadAt, useless.Expires = time.Unix(1, 0), time.Unix(2, 0)
	served := func(c *cache.Cache, q cache.Query) bool {
		return string(mustGet(t, c, q, answer(100, []byte("read anew"))).Entry.Body) == "stored"
	}
	all := slices.Collect(judgements(now))
	stored, stale := map[string]*cache.Entry{}, map[string]*cache.Entry{}
	for _, j := range all {
		stored[j.q.Key], stale[j.q.Key] = j.entry, useless
	}
	writer.Save(t.Context(), stored, time.Hour)
	behind.Save(t.Context(), stale, 0)
	judge := func(j judgement) {
		_, inMemory := writer.Fresh(j.q, now, nil)
		found := starting.Inspect(t.Context(), j.q)
		judges := map[string]bool{
			"memory":                   inMemory,
			"an operator, of memory":   writer.Inspect(t.Context(), j.q).Memory.State == cache.Fresh,
			"an operator, of Redis":    found.Shared.State == cache.Fresh,
			"an operator's forecast":   found.Forecast == cache.Hit,
			"a read of Redis":          served(starting, j.q),
			"a flight that asks Redis": served(behind, j.q),
		}
		for judge, got := range judges {
			if want := j.fresh(now); got != want {
				t.Errorf("fresh is %t, want %t, for %s\n%v", got, want, judge, j)
			}
		}
	}
	const atOnce = 60 // one after another they would wait for Redis twenty thousand times
	var judging sync.WaitGroup
	for part := range atOnce {
		judging.Go(func() {
			for i := part; i < len(all) && !t.Failed(); i += atOnce {
				judge(all[i])
			}
		})
	}
	judging.Wait()
}

// Of two entries of a key memory and the shared store keep the same one.
func TestMemoryAndTheSharedStoreKeepTheSameEntry(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	writer, reader := replica(t, store.Addr(), redis.Options{}), replica(t, store.Addr(), redis.Options{})
	began := time.Now().Truncate(time.Second)
	type kept struct{ body, of string }
	wanted := map[string]kept{}
	for _, height := range [][2]int64{{0, 0}, {0, 100}, {100, 0}, {100, 100}, {99, 100}, {100, 99}, {120, 100}, {120, 0}, {100, 120}} {
		for _, later := range []time.Duration{-time.Second, 0, time.Second} {
			for _, most := range []int64{0, 110} {
				q := cache.Query{Key: fmt.Sprint("k", len(wanted)), Policy: cache.Policy{Keep: time.Hour}, Tip: 100_000, MaxHeight: most}
				first, second := entry(height[0], "first"), entry(height[1], "second")
				first.ReadAt, second.ReadAt = began, began.Add(later)
				want := "first"
				if height[0] != height[1] && height[0] > 0 && height[1] > 0 && height[1] > height[0] ||
					(height[0] == height[1] || height[0] == 0 || height[1] == 0) && later >= 0 || most > 0 && height[0] > most {
					want = "second"
				}
				writer.Save(t.Context(), map[string]*cache.Entry{q.Key: first}, time.Hour)
				mustGet(t, writer, q, func(context.Context, *cache.Entry) (*cache.Entry, error) { return second, nil })
				wanted[q.Key] = kept{want, fmt.Sprintf("of heights %v, the second read %v later, up to %d", height, later, most)}
			}
		}
	}
	idle(t, writer)
	for name, c := range map[string]*cache.Cache{"memory": writer, "Redis": reader} {
		found := c.Load(t.Context(), slices.Collect(maps.Keys(wanted)))
		for key, want := range wanted {
			if got := found[key]; got == nil || string(got.Body) != want.body {
				t.Errorf("%s keeps %+v, want the %s, %s", name, got, want.body, want.of)
			}
		}
	}
}
