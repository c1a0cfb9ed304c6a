package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
)

// Readers of two replicas ask at random while the chain grows, the node fails
// now and then, and either memory is too small or the shared store loses what it
// has. Each answer must be one the chain gave at its height, as new as the policy
// and the caller want it, and no reader of a replica may see a key go back.
func TestNoReaderEverSeesAKeyGoBack(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			store, forgetful := miniredis.RunT(t), seed%2 == 0
			memory := int64(1500) // some four entries
			if forgetful {
				memory = 0
			}
			var tip atomic.Int64
			tip.Store(100)
			policy := cache.Policy{FreshBlocks: 1, StaleBlocks: 4, ErrorBlocks: 12, StaleIfError: time.Hour, Keep: time.Hour}
			origin := func(context.Context, *cache.Entry) (*cache.Entry, error) {
				height := tip.Load()
				if height%7 == 0 {
					return nil, errDown
				}
				time.Sleep(time.Millisecond)
				return entry(height, fmt.Sprint("content ", height/3)), nil
			}
			history := func(c *cache.Cache, random *rand.Rand) {
				seen := map[string]int64{}
				for range 400 {
					q := cache.Query{Key: fmt.Sprint("k", random.IntN(5)), Policy: policy, Tip: tip.Load()}
					if random.IntN(10) == 0 {
						q.MinHeight = q.Tip
					}
					res, err := c.Get(t.Context(), q, origin)
					if err != nil {
						continue
					}
					e := res.Entry
					if e.Height < seen[q.Key] {
						t.Errorf("%s went from %d to %d (%v)", q.Key, seen[q.Key], e.Height, res.Outcome)
					}
					seen[q.Key] = e.Height
					if want := fmt.Sprint("content ", e.Height/3); string(e.Body) != want {
						t.Errorf("%s at %d is %q, want %q", q.Key, e.Height, e.Body, want)
					}
					if e.Height < q.MinHeight || q.Tip-e.Height > policy.ErrorBlocks {
						t.Errorf("%s at %d for tip %d and least height %d (%v)", q.Key, e.Height, q.Tip, q.MinHeight, res.Outcome)
					}
				}
			}
			var readers, world sync.WaitGroup
			for replica := range uint64(2) {
				c := sharing(t, client(t, store.Addr()), cache.Options{MemoryBytes: memory}, redis.Options{Lease: 200 * time.Millisecond})
				c.SetNamespace("story-1")
				for reader := range uint64(4) {
					readers.Go(func() { history(c, rand.New(rand.NewPCG(seed, replica*10+reader))) })
				}
			}
			done := make(chan bool)
			world.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					case <-time.After(3 * time.Millisecond):
						tip.Add(1)
					}
					if forgetful && n%20 == 19 {
						store.FlushAll()
					}
				}
			})
			readers.Wait()
			close(done)
			world.Wait()
		})
	}
}

// The script that looks for an entry in the shared store has to agree with the
// policy: the origin is asked if and only if the policy says that what is stored
// is not fresh.
func TestSharedStoreAgreesWithThePolicy(t *testing.T) {
	store := miniredis.RunT(t)
	now := time.Now().Truncate(time.Second)
	replica := func() *cache.Cache {
		c := sharing(t, client(t, store.Addr()), cache.Options{Now: func() time.Time { return now }}, redis.Options{})
		c.SetNamespace("story-1")
		return c
	}
	writer, reader := replica(), replica() // a reader waits as long as reads took lately
	random := rand.New(rand.NewPCG(1, 2))
	some := func(n int) int64 { return int64(random.IntN(n)) }
	for i := range 500 {
		if i%20 == 0 {
			reader = replica()
		}
		policy := cache.Policy{
			FreshBlocks: some(3), StaleBlocks: some(6), ErrorBlocks: some(9), Immutable: random.IntN(8) == 0,
			Fresh: time.Duration(some(3)) * time.Second, Stale: time.Duration(some(6)) * time.Second, Keep: time.Hour,
		}
		e := &cache.Entry{
			Content: cache.NewContent(200, "text/plain", "", []byte("stored"), 0),
			Height:  some(2) * (95 + some(8)), ReadAt: now.Add(-time.Duration(some(8)) * time.Second),
		}
		if random.IntN(4) == 0 {
			e.Expires = now.Add(time.Duration(some(2)) * time.Second)
		}
		q := cache.Query{Key: fmt.Sprint("k", i), Policy: policy, Tip: some(2) * (98 + some(4)), MinHeight: max(0, some(20)-10) * 10}
		writer.Save(t.Context(), map[string]*cache.Entry{q.Key: e}, time.Hour)

		state := policy.State(e, q.Tip, now)
		want := state == cache.Fresh && e.Height >= q.MinHeight
		res := mustGet(t, reader, q, answer(1000, []byte("read anew")))
		if got := string(res.Entry.Body) == "stored"; got != want {
			t.Fatalf("%+v\nentry at %d, %v old, expires %v\nserved %t, want %t", q, e.Height, now.Sub(e.ReadAt), e.Expires.Sub(now), got, want)
		}
	}
}
