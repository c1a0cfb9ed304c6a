package cache_test

import (
	"strings"
	"testing"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestHitAllocatesNothing(t *testing.T) {
	c := newCache(t, cache.Options{})
	q, origin, ctx := cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page), t.Context()
	mustGet(t, c, q, origin)
	expect.Equal(t, testing.AllocsPerRun(1000, func() { _, _ = c.Get(ctx, q, origin) }), 0, "allocations per hit in memory")
}

func TestMemoryIsBounded(t *testing.T) {
	c := newCache(t, cache.Options{MemoryBytes: 1 << 20})
	for i := range 2000 {
		mustGet(t, c, cache.Query{Key: strings.Repeat("k", i+1), Policy: live, Tip: 100}, answer(100, page))
	}
	expect.Eventually(t, "memory is within its bound", func() bool { return metric(t, c, "memory_bytes") <= 1<<20 })
	if metric(t, c, "evictions_total") == 0 {
		t.Error("evictions_total = 0, want more")
	}
}
