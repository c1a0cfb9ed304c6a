package cache_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

// stocked are keys as the proxy has them.
var stocked = []string{
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
		{"everything", cache.Selection{}, stocked},
		{"a prefix", cache.Selection{Prefix: "documented/staking/validators"}, stocked[1:6]},
		{"a path", cache.Selection{Path: "documented/staking/validators"}, stocked[1:3]},
		{"a path with a parameter", cache.Selection{Path: "documented/staking/validators/*"}, stocked[3:5]},
		{"an address, metadata included", cache.Selection{Contains: "0xcd"}, stocked[5:8]},
		{"an address on a path", cache.Selection{Contains: "0xab", Path: "documented/staking/validators/*/delegations/*"}, stocked[5:6]},
		{"what looks like a pattern is none", cache.Selection{Prefix: "odd/*[a]?\\"}, stocked[8:]},
		{"a pattern matches nothing", cache.Selection{Prefix: "documented/*"}, nil},
	}
	stores := map[string]func(testing.TB) goredis.UniversalClient{
		"single": func(t testing.TB) goredis.UniversalClient { return client(t, startRedis(t).addr) },
		"cluster": func(t testing.TB) goredis.UniversalClient {
			rdb := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: startCluster(t, 1), ContextTimeoutEnabled: true})
			t.Cleanup(func() { _ = rdb.Close() })
			return rdb
		},
	}
	for store, start := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			a, b := member(t, rdb, "story-1"), member(t, rdb, "story-1")
			other := member(t, rdb, "story-2")
			for _, test := range tests {
				stock(t, a, b, other)
				done, err := a.PurgeKeys(t.Context(), test.sel)
				if want := (cache.Purged{Memory: len(test.want), Shared: len(test.want), Notified: true}); err != nil || done != want {
					t.Errorf("%s: %+v, %v, want %+v", test.name, done, err, want)
				}
				heard(t, a, b) // what it announced purges a itself once more
				for name, c := range map[string]*cache.Cache{"the one asked": a, "the other": b} {
					expect.Eventually(t, "memory is purged: "+name, func() bool {
						return cmp.Equal(missing(t, c, inMemory), test.want)
					})
				}
				if got := missing(t, a, inShared); !cmp.Equal(got, test.want) {
					t.Errorf("%s: gone from Redis: %q, want %q", test.name, got, test.want)
				}
				if gone := slices.Concat(missing(t, other, inMemory), missing(t, other, inShared)); len(gone) > 0 {
					t.Errorf("%s: the other chain lost %q, want nothing", test.name, gone)
				}
			}
		})
	}
}

// member returns a cache that hears what other replicas say.
func member(t *testing.T, rdb goredis.UniversalClient, chain string) *cache.Cache {
	channel := "tipcache:1:" + chain
	listeners := func() (n int64) {
		expect.Eventually(t, "Redis counts its subscribers", func() bool {
			counts, err := rdb.PubSubNumSub(t.Context(), channel).Result()
			n = counts[channel]
			return err == nil
		})
		return n
	}
	before := listeners()
	c := sharing(t, rdb, cache.Options{}, redis.Options{})
	c.SetNamespace(chain)
	expect.Eventually(t, "the replica listens", func() bool { return listeners() > before })
	return c
}

// heard returns when a replica has heard all that was announced so far, which
// another one's announcement shows: they come in order.
func heard(t *testing.T, c, another *cache.Cache) {
	t.Helper()
	q := cache.Query{Key: "announced last", Policy: live, Tip: 100}
	mustGet(t, c, q, answer(100, page))
	idle(t, c)
	if _, err := another.PurgeKeys(t.Context(), cache.Selection{Path: q.Key}); err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "the announcement is heard", func() bool { return !inMemory(c.Inspect(t.Context(), q)) })
}

// stock fills every store of the replicas. It asks an origin only for what is
// not there yet.
func stock(t *testing.T, replicas ...*cache.Cache) {
	t.Helper()
	for _, c := range replicas {
		for _, key := range stocked {
			mustGet(t, c, cache.Query{Key: key, Policy: live, Tip: 100}, answer(100, page))
		}
		idle(t, c)
	}
}

func inMemory(i cache.Inspection) bool { return i.Memory.Entry != nil }
func inShared(i cache.Inspection) bool { return i.Shared.Entry != nil }

// missing lists the keys that a store does not have.
func missing(t *testing.T, c *cache.Cache, has func(cache.Inspection) bool) (keys []string) {
	t.Helper()
	for _, key := range stocked {
		if !has(c.Inspect(t.Context(), cache.Query{Key: key, Policy: live, Tip: 100})) {
			keys = append(keys, key)
		}
	}
	return keys
}

func TestPurgeScansManyKeysAndKeepsLeases(t *testing.T) {
	rdb := client(t, startRedis(t).addr)
	c := member(t, rdb, "story-1")
	entries := map[string]*cache.Entry{}
	for i := range 5000 {
		entries[fmt.Sprintf("many/%d", i)] = entry(100, "x")
	}
	c.Save(t.Context(), entries, time.Hour)
	expect.NoError(t, rdb.Set(t.Context(), "tipcache:1:{story-1:many/1}:l", "another replica's", time.Hour).Err())
	done, err := c.PurgeKeys(t.Context(), cache.Selection{Prefix: "many/"})
	if err != nil || done.Shared != 5000 || done.Memory != 5000 {
		t.Errorf("got %+v, %v; want 5000 each", done, err)
	}
	if left := rdb.Keys(t.Context(), "*").Val(); !cmp.Equal(left, []string{"tipcache:1:{story-1:many/1}:l"}) {
		t.Errorf("left in Redis: %q, want the lease", left)
	}
}

func TestAnswerInFlightDuringAPurgeIsStoredWhole(t *testing.T) {
	t.Parallel()
	rdb := client(t, startRedis(t).addr)
	c := member(t, rdb, "story-1")
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	mustGet(t, c, q, answer(100, page))
	asked, goOn := make(chan struct{}), make(chan struct{})
	q.Tip = 200
	go func() {
		_, _ = c.Get(t.Context(), q, func(_ context.Context, prev *cache.Entry) (*cache.Entry, error) {
			close(asked)
			<-goOn
			return prev.Confirm(200, time.Now()), nil
		})
	}()
	<-asked
	if _, err := c.PurgeKeys(t.Context(), cache.Selection{}); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	expect.Eventually(t, "the answer is stored with its body", func() bool {
		i := c.Inspect(t.Context(), q)
		return i.Shared.Entry != nil && i.Shared.Height == 200 && len(i.Shared.Body) == len(page) && i.Lease == 0
	})
}

func TestPurgeReportsMissingSharedStore(t *testing.T) {
	t.Parallel()
	alone := newCache(t, cache.Options{})
	stock(t, alone)
	if done, err := alone.PurgeKeys(t.Context(), cache.Selection{}); err != nil || done != (cache.Purged{Memory: len(stocked)}) {
		t.Errorf("without a shared store: got %+v, %v; want %d entries of memory", done, err, len(stocked))
	}
	s := startRedis(t)
	cutOff := member(t, client(t, s.addr), "story-1")
	stock(t, cutOff)
	s.kill()
	done, err := cutOff.PurgeKeys(t.Context(), cache.Selection{})
	if err == nil || done != (cache.Purged{Memory: len(stocked)}) {
		t.Errorf("without Redis: got %+v, %v; want %d entries of memory and an error", done, err, len(stocked))
	}
}
