package cache_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestEntryAboveTipIsNotServed(t *testing.T) {
	store := miniredis.RunT(t)
	a, b := startReplica(t, store.Addr(), redis.Options{}), startReplica(t, store.Addr(), redis.Options{})
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	mustGet(t, a, q, answer(1<<52, []byte("false")))
	expect.Eventually(t, "the entry with the false height is in Redis", func() bool { return store.Exists("tipcache:2:{story-1:k}") })

	q.MaxHeight = 110
	for name, c := range map[string]*cache.Cache{"from the shared store": b, "from memory": a} {
		if res := mustGet(t, c, q, answer(100, []byte("true"))); string(res.Entry.Body) != "true" || res.Entry.Height != 100 {
			t.Errorf("%s: got %s at %d, want true at 100", name, res.Entry.Body, res.Entry.Height)
		}
	}
	expect.Eventually(t, "the entry at height 100 is in Redis", func() bool {
		return strings.HasPrefix(store.HGet("tipcache:2:{story-1:k}", "m"), "2 100 ")
	})
}

func TestStaleEntryServedWhileOriginIsBehind(t *testing.T) {
	c := newCache(t, cache.Options{})
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	mustGet(t, c, q, answer(100, []byte("old")))
	q.Tip = 100_000 // farther than any limit of the policy
	behind := func(context.Context, *cache.Entry) (*cache.Entry, error) {
		return nil, fmt.Errorf("%w: at 200", upstream.ErrBehind)
	}
	if res := mustGet(t, c, q, behind); string(res.Entry.Body) != "old" || res.Outcome != cache.StaleError {
		t.Errorf("got %s, %v; want old, stale_error", res.Entry.Body, res.Outcome)
	}
	q.MinHeight = 101
	if _, err := c.Get(t.Context(), q, originFunc(behind)); err == nil {
		t.Error("Get with MinHeight above the entry: error = nil, want one")
	}
}

func TestOriginBehindDoesNotReplaceNewerEntry(t *testing.T) {
	c := newCache(t, cache.Options{})
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	mustGet(t, c, q, answer(100, []byte("old")))
	q.Tip = 150
	behind := answer(90, []byte("older"))
	for range 3 {
		if res := mustGet(t, c, q, behind); string(res.Entry.Body) != "old" || res.Outcome != cache.StaleError {
			t.Errorf("got %s, %v; want old, stale_error", res.Entry.Body, res.Outcome)
		}
	}
	q.Key = "cold"
	if res := mustGet(t, c, q, behind); res.Entry.Height != 90 || res.Outcome != cache.Miss {
		t.Errorf("key without an entry: got height %d, %v; want 90, miss", res.Entry.Height, res.Outcome)
	}
}
