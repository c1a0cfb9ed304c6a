package cache_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
)

var live = cache.Policy{
	FreshBlocks: 1, StaleBlocks: 10, ErrorBlocks: 100,
	Fresh: 2 * time.Second, Stale: 20 * time.Second, StaleIfError: time.Hour, Keep: 2 * time.Hour,
}

// page is a body as long as a typical list.
var page = []byte(strings.Repeat(`{"operator_address":"storyvaloper1","tokens":"1024000000000","status":3},`, 60))

func BenchmarkHit(b *testing.B) {
	c, q, origin := newCache(b, cache.Options{}), cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page)
	mustGet(b, c, q, origin)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = c.Get(context.Background(), q, origin)
		}
	})
}

// BenchmarkShared reads more keys than memory holds, in an order in which memory has evicted each of them.
func BenchmarkShared(b *testing.B) {
	origin := answer(100, page)
	for name, keys := range map[string]int{"hit": 1000, "miss": 1 << 30} {
		b.Run(name, func(b *testing.B) {
			c := newReplica(b, startRedis(b).addr, cache.Options{MemoryBytes: 1 << 20}, redis.Options{})
			for i := range min(keys, 1000) {
				mustGet(b, c, cache.Query{Key: fmt.Sprint(i), Policy: live, Tip: 100}, origin)
			}
			b.ReportAllocs()
			for i := 1000; b.Loop(); i++ {
				mustGet(b, c, cache.Query{Key: fmt.Sprint(i % keys), Policy: live, Tip: 100}, origin)
			}
		})
	}
}
