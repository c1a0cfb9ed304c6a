package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
)

// Readers of two replicas ask at random while the chain grows with what they ask, the node fails
// now and then, and either memory is too small or the shared store loses what it
// has. Each answer must be one the chain gave at its height, as new as the policy
// and the caller want it, and no reader of a replica may see a key go back.
func TestNoReaderEverSeesAKeyGoBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			store, forgetful := miniredis.RunT(t), seed%2 == 0
			memory := int64(1500) // some four entries
			if forgetful {
				memory = 0
			}
			var tip, asked atomic.Int64
			tip.Store(100)
			next := func() {
				if n := asked.Add(1); n%10 == 0 {
					tip.Add(1)
					if forgetful && n%200 == 0 {
						store.FlushAll()
					}
				}
			}
			policy := cache.Policy{FreshBlocks: 1, StaleBlocks: 4, ErrorBlocks: 12, StaleIfError: time.Hour, Keep: time.Hour}
			origin := func(context.Context, *cache.Entry) (*cache.Entry, error) {
				height := tip.Load()
				if height%7 == 0 {
					return nil, errDown
				}
				runtime.Gosched()
				return entry(height, fmt.Sprint("content ", height/3)), nil
			}
			history := func(c *cache.Cache, random *rand.Rand) {
				seen := map[string]int64{}
				for range 200 {
					next()
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
						t.Errorf("%s went from block %d to %d (%v), want no earlier block", q.Key, seen[q.Key], e.Height, res.Outcome)
					}
					seen[q.Key] = e.Height
					if want := fmt.Sprint("content ", e.Height/3); string(e.Body) != want {
						t.Errorf("%s at %d is %q, want %q", q.Key, e.Height, e.Body, want)
					}
					if e.Height < q.MinHeight || q.Tip-e.Height > policy.ErrorBlocks {
						t.Errorf("%s at block %d (%v), want at least %d and at most %d behind the tip %d", q.Key, e.Height, res.Outcome, q.MinHeight, policy.ErrorBlocks, q.Tip)
					}
				}
			}
			var readers sync.WaitGroup
			for replica := range uint64(2) {
				c := named(t, store.Addr(), cache.Options{MemoryBytes: memory}, redis.Options{Lease: 200 * time.Millisecond})
				for reader := range uint64(4) {
					readers.Go(func() { history(c, rand.New(rand.NewPCG(seed, replica*10+reader))) })
				}
			}
			readers.Wait()
		})
	}
}
