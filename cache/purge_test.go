package cache_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// storedKeys look like the keys of the proxy.
var storedKeys = []string{
	"documented/staking/params",
	"documented/staking/validators",
	"documented/staking/validators?pagination.limit=5",
	"documented/staking/validators/0xab",
	"documented/staking/validators/0xab@100",
	"documented/staking/validators/0xab/delegations/0xcd",
	"documented/staking/delegations/0xcd?pagination.limit=5",
	"meta/net/0xcd",
	"odd/*[a]?\\",
}

func TestSelectionsPurgeMatchingEntries(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		sel  cache.Selection
		want []string
	}{
		{"everything", cache.Selection{}, storedKeys},
		{"a prefix", cache.Selection{Prefix: "documented/staking/validators"}, storedKeys[1:6]},
		{"a path", cache.Selection{Path: "documented/staking/validators"}, storedKeys[1:3]},
		{"a path with a parameter", cache.Selection{Path: "documented/staking/validators/*"}, storedKeys[3:5]},
		{"an address, metadata included", cache.Selection{Contains: "0xcd"}, storedKeys[5:8]},
		{"an address on a path", cache.Selection{Contains: "0xab", Path: "documented/staking/validators/*/delegations/*"}, storedKeys[5:6]},
		{"a prefix with characters of patterns", cache.Selection{Prefix: "odd/*[a]?\\"}, storedKeys[8:]},
		{"a prefix that looks like a pattern", cache.Selection{Prefix: "documented/*"}, nil},
	}
	rdb := redistest.Client(t, startRedis(t).addr)
	a, b := startReplicaOf(t, rdb, "story-1", redis.Options{}), startReplicaOf(t, rdb, "story-1", redis.Options{})
	other := startReplicaOf(t, rdb, "story-2", redis.Options{})
	for _, test := range tests {
		fillStores(t, a, b, other)
		purged, err := a.PurgeKeys(t.Context(), test.sel)
		if want := (cache.Purged{Memory: len(test.want), Shared: len(test.want), Notified: true}); err != nil || purged != want {
			t.Errorf("PurgeKeys of %s = %+v, %v; want %+v", test.name, purged, err, want)
		}
		waitForMessages(t, a, b) // a receives its own announcement, too
		for name, c := range map[string]*cache.Cache{"the replica itself": a, "the other replica": b} {
			expect.Eventually(t, test.name+" is purged from memory of "+name, func() bool {
				return cmp.Equal(missing(t, c, inMemory), test.want)
			})
		}
		expect.NoDiff(t, missing(t, a, inShared), test.want, "keys of %s purged from Redis", test.name)
		if lost := slices.Concat(missing(t, other, inMemory), missing(t, other, inShared)); len(lost) > 0 {
			t.Errorf("%s: keys purged from the other chain = %q, want none", test.name, lost)
		}
	}
}

// waitForMessages waits until c has received all messages published so far. Messages arrive in order, so it waits for an
// announcement of another replica.
func waitForMessages(t *testing.T, c, another *cache.Cache) {
	t.Helper()
	q := cache.Query{Key: "announced last", Policy: live, Tip: 100}
	mustGet(t, c, q, answer(100, page))
	waitForIdle(t, c)
	expect.Eventually(t, "the replica receives the last announcement", func() bool {
		expect.Value(another.PurgeKeys(t.Context(), cache.Selection{Path: q.Key}))(t) // again, because it may not be subscribed yet
		return !inMemory(c.Inspect(t.Context(), q, nil))
	})
}

// fillStores stores all of storedKeys in the memory of the replicas and in Redis.
func fillStores(t *testing.T, replicas ...*cache.Cache) {
	t.Helper()
	for _, c := range replicas {
		for _, key := range storedKeys {
			mustGet(t, c, cache.Query{Key: key, Policy: live, Tip: 100}, answer(100, page))
		}
		waitForIdle(t, c)
	}
}

func inMemory(i cache.Inspection) bool { return i.Memory.Entry != nil }
func inShared(i cache.Inspection) bool { return i.Shared.Entry != nil }

// missing returns the keys of storedKeys that a store does not have.
func missing(t *testing.T, c *cache.Cache, has func(cache.Inspection) bool) (keys []string) {
	t.Helper()
	for _, key := range storedKeys {
		if !has(c.Inspect(t.Context(), cache.Query{Key: key, Policy: live, Tip: 100}, nil)) {
			keys = append(keys, key)
		}
	}
	return keys
}

func TestConfirmationDuringPurgeIsStoredWithItsBody(t *testing.T) {
	t.Parallel()
	rdb := redistest.Client(t, startRedis(t).addr)
	c := startReplicaOf(t, rdb, "story-1", redis.Options{})
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	mustGet(t, c, q, answer(100, page))
	q.Tip = 200
	mustGet(t, c, q, func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
		expect.Value(c.PurgeKeys(ctx, cache.Selection{}))(t)
		return prev.Confirm(200, time.Now()), nil
	})
	expect.Eventually(t, "the entry is stored with its body", func() bool {
		i := c.Inspect(t.Context(), q, nil)
		return i.Shared.Entry != nil && i.Shared.Entry.Height == 200 && len(i.Shared.Entry.Body) == len(page) && i.Lease == 0
	})
}

func TestPurgeReportsMissingSharedStore(t *testing.T) {
	t.Parallel()
	alone := newCache(t, cache.Options{})
	fillStores(t, alone)
	want := cache.Purged{Memory: len(storedKeys)}
	if purged, err := alone.PurgeKeys(t.Context(), cache.Selection{}); err != nil || purged != want {
		t.Errorf("PurgeKeys without a shared store = %+v, %v; want %+v", purged, err, want)
	}
	s := startRedis(t)
	disconnected := startReplica(t, s.addr, redis.Options{})
	fillStores(t, disconnected)
	s.kill()
	if purged, err := disconnected.PurgeKeys(t.Context(), cache.Selection{}); err == nil || purged != want {
		t.Errorf("PurgeKeys without Redis = %+v, %v; want %+v and an error", purged, err, want)
	}
}
