package cache_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// startCluster runs a Redis Cluster and returns the addresses of its masters.
func startCluster(t testing.TB, masters int, args ...string) (addrs []string) {
	t.Helper()
	const slots = 16384
	for i := range masters {
		bus := portOf(porttest.Address(t))
		addr := startRedis(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", bus}, args...)...).addr
		addrs = append(addrs, addr)
		expect.NoError(t, redistest.Client(t, addr).ClusterAddSlotsRange(t.Context(), i*slots/masters, (i+1)*slots/masters-1).Err())
		expect.NoError(t, redistest.Client(t, addrs[0]).Do(t.Context(), "cluster", "meet", "127.0.0.1", portOf(addr), bus).Err())
	}
	for _, addr := range addrs {
		rdb := redistest.Client(t, addr)
		expect.Eventually(t, "the cluster is up on all nodes", func() bool {
			info := rdb.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", masters))
		})
	}
	return addrs
}

func clusterClient(t testing.TB, addrs []string) *goredis.ClusterClient {
	t.Helper()
	rdb := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true, ClusterStateReloadInterval: 50 * time.Millisecond})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// commandCalls returns how often the nodes executed a command.
func commandCalls(t testing.TB, addrs []string, command string) (sum int) {
	t.Helper()
	for _, addr := range addrs {
		for line := range strings.Lines(redistest.Client(t, addr).Info(t.Context(), "commandstats").Val()) {
			if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
				n, _, _ := strings.Cut(rest, ",")
				count, _ := strconv.Atoi(n)
				sum += count
			}
		}
	}
	return sum
}

// checkWakeUp lets a hold the lease of each key, and checks that b waits for it and receives the entry of a.
func checkWakeUp(t *testing.T, a, b *cache.Cache, keys ...string) {
	t.Helper()
	for _, key := range keys {
		q := cache.Query{Key: key, Policy: live, Tip: 100}
		answers, _ := holdLease(t, a, q)
		got := startFollower(t, b, q)
		answers <- nil
		expect.Equal(t, describe(<-got, nil), "hit shared: of the holder at 100", "result of the follower for key %q", key)
	}
}

// An operation uses keys of one slot only.
func TestReplicasShareEntriesInCluster(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t, 3)
	o := redis.Options{Lease: time.Hour}
	a, b := startReplicaOf(t, clusterClient(t, addrs), "story-1", o), startReplicaOf(t, clusterClient(t, addrs), "story-1", o)
	checkWakeUp(t, a, b, "k", "", "}", "{}", "a{b}c", "}{")
	waitForIdle(t, a)
	mustReadKeys(t, a, 100, 20) // their writes are batched
	waitForIdle(t, a)
	for i := range 20 {
		if got := mustGet(t, b, cache.Query{Key: fmt.Sprint("k", i), Policy: live, Tip: 100}, nil); got.Store != "shared" {
			t.Errorf("Get(k%d) of the other replica = %s, want the entry from the shared store", i, describe(got, nil))
		}
	}
	entries := map[string]*cache.Entry{}
	for i := range 50 {
		entries[fmt.Sprint("many", i)] = entry(0, "body")
	}
	a.Save(t.Context(), entries, time.Hour)
	found := b.Load(t.Context(), slices.Collect(maps.Keys(entries)))
	expect.Equal(t, len(found), len(entries), "entries that the other replica loads")
	expect.Equal(t, metric(t, a, "shared_errors_total")+metric(t, b, "shared_errors_total"), 0, "errors of the store")
}

func TestClusterReceivesFailuresOfHolders(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t, 2)
	o := redis.Options{Lease: time.Hour}
	a, b := startReplicaOf(t, clusterClient(t, addrs), "story-1", o), startReplicaOf(t, clusterClient(t, addrs), "story-1", o)
	for _, key := range []string{"k", "l", "m"} {
		q := cache.Query{Key: key, Policy: live, Tip: 100}
		answers, _ := holdLease(t, a, q)
		got := startFollower(t, b, q)
		answers <- context.DeadlineExceeded
		expect.Equal(t, describe(<-got, nil), "miss uri-miss: of the follower at 100", "result of the follower for key %s", key)
	}
}
