package cache_test

import (
	"context"
	"errors"
	"fmt"
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

// startCluster runs a cluster of so many masters, and returns their addresses.
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
		expect.Eventually(t, "the cluster is up", func() bool {
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

// calls is how often the nodes carried out a command.
func calls(t testing.TB, addrs []string, command string) (sum int) {
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

// mustWake has one replica wait for another, key by key.
func mustWake(t *testing.T, a, b *cache.Cache, keys ...string) {
	t.Helper()
	for _, key := range keys {
		q := cache.Query{Key: key, Policy: live, Tip: 100}
		answers, _ := hold(t, a, q)
		got := follow(t, b, q)
		answers <- nil
		if line := tell(<-got, nil); line != "hit shared: of the holder at 100" {
			t.Errorf("key %q: the follower got %s, want hit shared: of the holder at 100", key, line)
		}
	}
}

// All that one operation touches has to be in one slot, and what is said of leases stays with
// the node of its shard.
func TestCluster(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t, 3)
	o := redis.Options{Lease: time.Hour}
	a, b := replicaOf(t, clusterClient(t, addrs), o), replicaOf(t, clusterClient(t, addrs), o)
	mustWake(t, a, b, "k", "", "}", "{}", "a{b}c", "}{")
	idle(t, a)
	if to, all := calls(t, addrs, "spublish"), calls(t, addrs, "publish"); to < 6 || all > 0 {
		t.Errorf("%d messages to one node and %d to all, want at least 6 and 0", to, all)
	}
	mustServe(t, a, 100, 20) // what is settled together
	idle(t, a)
	for i := range 20 {
		if got := mustGet(t, b, cache.Query{Key: fmt.Sprint("k", i), Policy: live, Tip: 100}, nil); got.Store != "shared" {
			t.Errorf("k%d: got %s, want it from the shared store", i, tell(got, nil))
		}
	}
	many := map[string]*cache.Entry{}
	var keys []string
	for i := range 50 {
		keys = append(keys, fmt.Sprint("many", i))
		many[keys[i]] = entry(0, keys[i])
	}
	a.Save(t.Context(), many, time.Hour)
	if found := b.Load(t.Context(), keys); len(found) != len(keys) {
		t.Errorf("loaded %d entries, want %d", len(found), len(keys))
	}
	if n := metric(t, a, "shared_errors_total") + metric(t, b, "shared_errors_total"); n != 0 {
		t.Errorf("%d errors of the store, want 0", n)
	}
}

func TestReplicasAreWokenWhereAShardHasMoved(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t, 2)
	o := redis.Options{Lease: time.Hour}
	a, b := replicaOf(t, clusterClient(t, addrs), o), replicaOf(t, clusterClient(t, addrs), o)
	first, second := client(t, addrs[0]), client(t, addrs[1])
	listening := func(rdb *goredis.Client) int { return len(rdb.PubSubShardChannels(t.Context(), "*").Val()) }
	expect.Eventually(t, "all shards are listened to", func() bool { return listening(first)+listening(second) == 16 })
	from, to := first.ClusterMyID(t.Context()).Val(), second.ClusterMyID(t.Context()).Val()
	for _, channel := range first.PubSubShardChannels(t.Context(), "*").Val() {
		slot := first.ClusterKeySlot(t.Context(), channel).Val()
		moved := errors.Join(
			second.Do(t.Context(), "cluster", "setslot", slot, "importing", from).Err(), // so that its claim is the newer one
			second.Do(t.Context(), "cluster", "setslot", slot, "node", to).Err(),
			first.Do(t.Context(), "cluster", "setslot", slot, "node", to).Err(),
		)
		if moved != nil {
			t.Fatal(moved)
		}
	}
	expect.Eventually(t, "all shards are listened to at the second", func() bool { return listening(second) == 16 })
	mustWake(t, a, b, "k", "l", "m")
}

func TestClusterWithoutShardedPubSubReceivesLeases(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t, 1, "--rename-command", "SPUBLISH", "", "--rename-command", "SSUBSCRIBE", "")
	o := redis.Options{Lease: time.Hour}
	a, b := replicaOf(t, clusterClient(t, addrs), o), replicaOf(t, clusterClient(t, addrs), o)
	mustWake(t, a, b, "k", "l")
	q := cache.Query{Key: "failing", Policy: live, Tip: 100}
	answers, _ := hold(t, a, q)
	got := follow(t, b, q)
	answers <- context.DeadlineExceeded
	if line := tell(<-got, nil); line != "miss uri-miss: of the follower at 100" {
		t.Errorf("follower got %s, want miss uri-miss: of the follower at 100", line)
	}
}
