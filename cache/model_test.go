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

// Readers of two replicas read random keys. The chain grows with the number of reads, the node fails at some heights,
// and either memory is too small or the shared store loses its entries. Each result must be the content of the chain at
// its height and satisfy the policy and the query, and no reader may see the height of a key decrease.
func TestReaderNeverSeesHeightOfKeyDecrease(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			store, losesEntries := miniredis.RunT(t), seed%2 == 0
			memory := int64(1500) // about four entries
			if losesEntries {
				memory = 0
			}
			var tip, reads atomic.Int64
			tip.Store(100)
			next := func() {
				if n := reads.Add(1); n%10 == 0 {
					tip.Add(1)
					if losesEntries && n%200 == 0 {
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
					res, err := c.Get(t.Context(), q, originFunc(origin))
					if err != nil {
						continue
					}
					e := res.Entry
					if e.Height < seen[q.Key] {
						t.Errorf("height of %s = %d (%v), want at least %d, which the reader has seen", q.Key, e.Height, res.Outcome, seen[q.Key])
					}
					seen[q.Key] = e.Height
					if want := fmt.Sprint("content ", e.Height/3); string(e.Body) != want {
						t.Errorf("body of %s at %d = %q, want %q", q.Key, e.Height, e.Body, want)
					}
					if e.Height < q.MinHeight || q.Tip-e.Height > policy.ErrorBlocks {
						t.Errorf("height of %s = %d (%v), want at least %d and at most %d behind the tip %d", q.Key, e.Height, res.Outcome, q.MinHeight, policy.ErrorBlocks, q.Tip)
					}
				}
			}
			var readers sync.WaitGroup
			for replica := range uint64(2) {
				c := newReplica(t, store.Addr(), cache.Options{MemoryBytes: memory}, redis.Options{Lease: 200 * time.Millisecond})
				for reader := range uint64(4) {
					readers.Go(func() { history(c, rand.New(rand.NewPCG(seed, replica*10+reader))) })
				}
			}
			readers.Wait()
		})
	}
}
