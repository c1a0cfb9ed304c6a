package cache_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestConfinedEntriesTakeAQuarterOfMemory(t *testing.T) {
	const memory = 8 << 20
	c := newCache(t, cache.Options{MemoryBytes: memory})
	other := cache.Query{Key: "other", Policy: live, Tip: 100}
	mustGet(t, c, other, answer(100, page))
	body := bytes.Repeat([]byte("x"), 10_000)
	for i := range 1000 {
		q := cache.Query{Key: fmt.Sprint("unknown ", i), Policy: live, Tip: 100, Confined: true}
		mustGet(t, c, q, answer(100, body))
		mustGet(t, c, q, answer(101, body)) // is a hit
	}
	left := 0
	for i := range 1000 {
		if c.Peek(cache.Query{Key: fmt.Sprint("unknown ", i), Policy: live, Tip: 100}) != nil {
			left++
		}
	}
	if size := left * len(body); size > memory/4 || left == 0 {
		t.Errorf("%d confined entries of %d bytes remain, want at least 1 and at most %d bytes", left, len(body), memory/4)
	}
	if c.Peek(other) == nil {
		t.Error("unconfined entry was evicted")
	}
	newest := cache.Query{Key: "unknown 999", Policy: live, Tip: 100, Confined: true}
	expect.Equal(t, mustGet(t, c, newest, answer(100, page)).Outcome, cache.Hit, "outcome of the newest confined key")
}

func TestReplacedConfinedEntryCountsUntilEvicted(t *testing.T) {
	c := newCache(t, cache.Options{MemoryBytes: 1 << 20})
	body := bytes.Repeat([]byte("x"), 10_000)
	for height := int64(100); height < 1000; height++ { // far more than a quarter of memory, one block after the other
		q := cache.Query{Key: "unknown", Policy: live, Tip: height, Confined: true}
		mustGet(t, c, q, answer(height, fmt.Append(body[:9000:9000], height)))
		if c.Peek(q) == nil {
			t.Fatalf("Peek at block %d = nil, want the entry", height)
		}
	}
}
