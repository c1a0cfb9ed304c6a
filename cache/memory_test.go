package cache_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestMemoryNeverGoesBack(t *testing.T) {
	now := time.Now()
	at := func(height int64, read time.Duration, body string) *cache.Entry {
		e := entry(height, body)
		e.ReadAt = now.Add(read)
		return e
	}
	tests := []struct {
		name     string
		old, new *cache.Entry
		want     string
	}{
		{"a higher entry replaces a lower one", at(100, 0, "old"), at(101, -time.Second, "new"), "new"},
		{"a lower entry does not, however late it was read", at(100, 0, "old"), at(99, time.Hour, "new"), "old"},
		{"at one height the later reading stays", at(100, 0, "old"), at(100, -1, "new"), "old"},
		{"at one height the last of equals stays", at(100, 0, "old"), at(100, 0, "new"), "new"},
		{"an unknown height replaces a known one if read later", at(100, 0, "old"), at(0, 1, "new"), "new"},
		{"an unknown height does not if read earlier", at(100, 0, "old"), at(0, -1, "new"), "old"},
		{"a known height replaces an unknown one if read later", at(0, 0, "old"), at(100, 1, "new"), "new"},
		{"a known height does not if read earlier", at(0, 0, "old"), at(100, -1, "new"), "old"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCache(t, cache.Options{})
			for _, e := range []*cache.Entry{tt.old, tt.new} {
				c.Save(t.Context(), map[string]*cache.Entry{"k": e}, 0)
			}
			if got := string(c.Load(t.Context(), []string{"k"})["k"].Body); got != tt.want {
				t.Errorf("holds the %s one, want the %s one", got, tt.want)
			}
		})
	}
}

func TestHitAllocatesNothing(t *testing.T) {
	c := newCache(t, cache.Options{})
	q, origin, ctx := cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page), t.Context()
	mustGet(t, c, q, origin)
	if n := testing.AllocsPerRun(1000, func() { _, _ = c.Get(ctx, q, origin) }); n != 0 {
		t.Errorf("a hit in memory allocates %v times, want 0", n)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	c := newCache(t, cache.Options{MemoryBytes: 1 << 20})
	for i := range 2000 {
		mustGet(t, c, cache.Query{Key: strings.Repeat("k", i+1), Policy: live, Tip: 100}, answer(100, page))
	}
	expect.Eventually(t, "memory is within its bound", func() bool { return metric(t, c, "memory_bytes") <= 1<<20 })
	if metric(t, c, "evictions_total") == 0 {
		t.Error("no eviction was counted")
	}
}
