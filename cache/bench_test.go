package cache_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/cache/redis"
)

var live = cache.Policy{
	FreshBlocks: 1, StaleBlocks: 10, ErrorBlocks: 100,
	Fresh: 2 * time.Second, Stale: 20 * time.Second, StaleIfError: time.Hour, Keep: 2 * time.Hour,
}

// page is a body of the size of a usual list.
var page = []byte(strings.Repeat(`{"operator_address":"storyvaloper1","tokens":"1024000000000","status":3},`, 60))

func BenchmarkGet(b *testing.B) {
	b.Run("memory hit", func(b *testing.B) {
		c := newCache(b, cache.Options{})
		benchmarkHit(b, c, cache.Query{Key: "k", Policy: live, Tip: 100})
	})
	b.Run("memory hit with least height", func(b *testing.B) {
		c := newCache(b, cache.Options{})
		benchmarkHit(b, c, cache.Query{Key: "k", Policy: live, Tip: 100, MinHeight: 99})
	})
	b.Run("memory hit by seconds", func(b *testing.B) {
		c := newCache(b, cache.Options{})
		long := live
		long.Fresh = time.Hour
		benchmarkHit(b, c, cache.Query{Key: "k", Policy: long})
	})
	b.Run("memory hit, all processors", func(b *testing.B) {
		c := newCache(b, cache.Options{})
		q := cache.Query{Key: "k", Policy: live, Tip: 100}
		origin := answer(100, page)
		mustGet(b, c, q, origin)
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = c.Get(context.Background(), q, origin)
			}
		})
	})
	b.Run("shared hit", func(b *testing.B) {
		rdb := client(b, startRedis(b).addr)
		c := sharing(b, rdb, cache.Options{MemoryBytes: 1 << 20}, redis.Options{})
		c.SetNamespace("bench")
		// Memory has room for some of the keys only, and none that is asked for
		// in this order is still there.
		keys := make([]string, 1000)
		origin := answer(100, page)
		for i := range keys {
			keys[i] = fmt.Sprint("k", i)
			mustGet(b, c, cache.Query{Key: keys[i], Policy: live, Tip: 100}, origin)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			mustGet(b, c, cache.Query{Key: keys[i%len(keys)], Policy: live, Tip: 100}, origin)
		}
	})
	b.Run("miss without shared store", func(b *testing.B) {
		c := newCache(b, cache.Options{MemoryBytes: 1 << 20})
		benchmarkMiss(b, c)
	})
	b.Run("miss with shared store", func(b *testing.B) {
		c := sharing(b, client(b, startRedis(b).addr), cache.Options{MemoryBytes: 1 << 20}, redis.Options{})
		c.SetNamespace("bench")
		benchmarkMiss(b, c)
	})
}

func benchmarkHit(b *testing.B, c *cache.Cache, q cache.Query) {
	ctx, origin := b.Context(), answer(100, page)
	mustGet(b, c, q, origin)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Get(ctx, q, origin); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkMiss(b *testing.B, c *cache.Cache) {
	origin := answer(100, page)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		mustGet(b, c, cache.Query{Key: fmt.Sprint(i), Policy: live, Tip: 100}, origin)
	}
}

// BenchmarkEncode encodes a page for the first client to ask for a coding.
func BenchmarkEncode(b *testing.B) {
	for _, coding := range []codings.Coding{codings.Gzip, codings.Zstd, codings.Brotli} {
		b.Run(codings.Names[coding], func(b *testing.B) {
			c := newCache(b, cache.Options{})
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			for b.Loop() {
				if _, as := c.Encoded("k", &cache.Content{Body: page}, coding, true, false); as != coding {
					b.Fatal("not encoded")
				}
			}
		})
	}
}

// BenchmarkNewContent makes the validator of a page.
func BenchmarkNewContent(b *testing.B) {
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		cache.NewContent(200, "application/json", "", page, 0)
	}
}
