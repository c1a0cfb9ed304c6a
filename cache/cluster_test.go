package cache_test

import (
	"context"
	"errors"
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
		expect.NoError(t, client(t, addr).ClusterAddSlotsRange(t.Context(), i*slots/masters, (i+1)*slots/masters-1).Err())
		expect.NoError(t, client(t, addrs[0]).Do(t.Context(), "cluster", "meet", "127.0.0.1", portOf(addr), bus).Err())
	}
	for _, addr := range addrs {
		rdb := client(t, addr)
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
		for line := range strings.Lines(client(t, addr).Info(t.Context(), "commandstats").Val()) {
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

// An operation uses keys of one slot only, and messages about a lease go only to the node of its shard.
func TestReplicasShareEntriesInCluster(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t, 3)
	o := redis.Options{Lease: time.Hour}
	a, b := startReplicaOf(t, clusterClient(t, addrs), "story-1", o), startReplicaOf(t, clusterClient(t, addrs), "story-1", o)
	checkWakeUp(t, a, b, "k", "", "}", "{}", "a{b}c", "}{")
	waitForIdle(t, a)
	if to, all := commandCalls(t, addrs, "spublish"), commandCalls(t, addrs, "publish"); to < 6 || all > 0 {
		t.Errorf("spublish = %d, publish = %d; want at least 6 and 0", to, all)
	}
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

func TestReplicasAreWokenAfterShardMoves(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t, 2)
	o := redis.Options{Lease: time.Hour}
	a, b := startReplicaOf(t, clusterClient(t, addrs), "story-1", o), startReplicaOf(t, clusterClient(t, addrs), "story-1", o)
	first, second := client(t, addrs[0]), client(t, addrs[1])
	subscribed := func(rdb *goredis.Client) int { return len(rdb.PubSubShardChannels(t.Context(), "*").Val()) }
	expect.Eventually(t, "replicas subscribe to all 16 shard channels", func() bool { return subscribed(first)+subscribed(second) == 16 })
	from, to := first.ClusterMyID(t.Context()).Val(), second.ClusterMyID(t.Context()).Val()
	for _, channel := range first.PubSubShardChannels(t.Context(), "*").Val() {
		slot := first.ClusterKeySlot(t.Context(), channel).Val()
		moved := errors.Join(
			second.Do(t.Context(), "cluster", "setslot", slot, "importing", from).Err(), // raises the epoch of its claim
			second.Do(t.Context(), "cluster", "setslot", slot, "node", to).Err(),
			first.Do(t.Context(), "cluster", "setslot", slot, "node", to).Err(),
		)
		if moved != nil {
			t.Fatal(moved)
		}
	}
	expect.Eventually(t, "replicas subscribe to all 16 shard channels of the second node", func() bool { return subscribed(second) == 16 })
	checkWakeUp(t, a, b, "k", "l", "m")
}

func TestClusterWithoutShardedPubSubReceivesLeases(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t, 1, "--rename-command", "SPUBLISH", "", "--rename-command", "SSUBSCRIBE", "")
	o := redis.Options{Lease: time.Hour}
	a, b := startReplicaOf(t, clusterClient(t, addrs), "story-1", o), startReplicaOf(t, clusterClient(t, addrs), "story-1", o)
	checkWakeUp(t, a, b, "k", "l")
	q := cache.Query{Key: "failing", Policy: live, Tip: 100}
	answers, _ := holdLease(t, a, q)
	got := startFollower(t, b, q)
	answers <- context.DeadlineExceeded
	expect.Equal(t, describe(<-got, nil), "miss uri-miss: of the follower at 100", "result of the follower")
}

func TestReplicasUseShardedPubSubOnceItIsPermitted(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t, 1)
	rdb := client(t, addrs[0])
	do := func(command ...any) {
		t.Helper()
		expect.NoError(t, rdb.Do(t.Context(), command...).Err())
	}
	do("acl", "setuser", "default", "-spublish")
	o := redis.Options{Lease: time.Hour}
	a, b := startReplicaOf(t, clusterClient(t, addrs), "story-1", o), startReplicaOf(t, clusterClient(t, addrs), "story-1", o)
	checkWakeUp(t, a, b, "k")
	do("acl", "setuser", "default", "+spublish")
	do("client", "kill", "type", "pubsub")
	n := 0
	expect.Eventually(t, "messages about leases go to shards", func() bool {
		n++
		sent := commandCalls(t, addrs, "spublish")
		checkWakeUp(t, a, b, fmt.Sprint("k", n))
		return commandCalls(t, addrs, "spublish") == sent+2
	})
}
