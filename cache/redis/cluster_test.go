package redis_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// startCluster runs a Redis Cluster and returns the addresses of its masters.
func startCluster(t testing.TB, masters int) (addrs []string) {
	t.Helper()
	const slots = 16384
	for i := range masters {
		_, bus, _ := net.SplitHostPort(porttest.Address(t))
		addr, _ := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-port", bus)
		addrs = append(addrs, addr)
		_, port, _ := net.SplitHostPort(addr)
		expect.NoError(t, redistest.Client(t, addr).ClusterAddSlotsRange(t.Context(), i*slots/masters, (i+1)*slots/masters-1).Err())
		expect.NoError(t, redistest.Client(t, addrs[0]).Do(t.Context(), "cluster", "meet", "127.0.0.1", port, bus).Err())
	}
	for _, addr := range addrs {
		rdb := redistest.Client(t, addr)
		expect.Eventually(t, "the cluster is up on all nodes, and each forwards messages to all others", func() bool {
			info, nodes := rdb.ClusterInfo(t.Context()).Val(), rdb.ClusterNodes(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Count(nodes, " connected") == masters && !strings.Contains(nodes, "handshake")
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

// commandCalls returns how often a node executed a command.
func commandCalls(t testing.TB, rdb goredis.UniversalClient, command string) int {
	t.Helper()
	_, rest, _ := strings.Cut(rdb.Info(t.Context(), "commandstats").Val(), "cmdstat_"+command+":calls=")
	n, _, _ := strings.Cut(rest, ",")
	calls, _ := strconv.Atoi(n)
	return calls
}

// subscriber passes on the messages of other replicas.
type subscriber chan string

func (s subscriber) NotifyAll() { s <- "subscribed" }
func (s subscriber) Notify(key string, again bool) {
	s <- fmt.Sprintf("abandoned %s, again: %t", key, again)
}
func (s subscriber) Renewed(key string, _ cache.Renewal) { s <- "published " + key }
func (s subscriber) Purge(sel cache.Selection) int       { s <- "purged " + sel.Prefix; return 0 }

// subscribe subscribes a store until the test ends.
func subscribe(t *testing.T, s *redis.Store) <-chan string {
	t.Helper()
	messages := make(subscriber, 100)
	ctx, end := context.WithCancel(t.Context())
	var subscription sync.WaitGroup
	subscription.Go(func() { s.Subscribe(ctx, "story-1", messages) })
	t.Cleanup(func() {
		end()
		subscription.Wait()
	})
	expect.Equal(t, <-messages, "subscribed", "first message")
	return messages
}

// An operation uses keys of one slot only.
func TestReplicasShareEntriesInCluster(t *testing.T) {
	t.Parallel()
	addrs, regA, regB := startCluster(t, 3), prometheus.NewRegistry(), prometheus.NewRegistry()
	a, b := newStore(t, clusterClient(t, addrs), redis.Options{Registerer: regA}), newStore(t, clusterClient(t, addrs), redis.Options{Registerer: regB})
	messages := subscribe(t, b)
	for _, key := range []string{"k", "l", "", "}", "{}", "a{b}c", "}{"} {
		for _, want := range []string{"abandoned " + key + ", again: false", "published " + key} {
			held := acquireLeases(t, a, key)[0]
			reply := expect.Value(b.NewLease("story-1", key, 0, false).Acquire(t.Context(), nil))(t)
			expect.Equal(t, reply.State, cache.LeaseBusy, "state of the lease of key %q for the other replica", key)
			if record, err := b.Inspect(t.Context(), "story-1", key); err != nil || record.Lease <= 0 {
				t.Errorf("Inspect(%q) of the other replica = %+v, %v; want a lease", key, record, err)
			}
			if want == "published "+key {
				expect.NoError(t, held.Publish(t.Context(), entry(100, "body of "+key), time.Hour))
			} else {
				expect.NoError(t, held.Abandon(t.Context(), false))
			}
			expect.Equal(t, <-messages, want, "message to the other replica")
		}
		if e, err := b.Read(t.Context(), "story-1", key); err != nil || e == nil || string(e.Body) != "body of "+key {
			t.Errorf("Read(%q) of the other replica = %+v, %v; want the published entry", key, e, err)
		}
	}
	entries := map[string]*cache.Entry{}
	for i := range 50 {
		entries[fmt.Sprint("many", i)] = entry(0, "body")
	}
	keys := slices.Collect(maps.Keys(entries))
	expect.NoError(t, errors.Join(publishAll(t, acquireLeases(t, a, keys[:20]...), entry(100, "body"))...))
	found := expect.Value(b.Load(t.Context(), "story-1", keys...))(t)
	expect.Equal(t, len(found), 20, "published entries that the other replica loads")
	a.Save(t.Context(), "story-1", entries, time.Hour)
	found = expect.Value(b.Load(t.Context(), "story-1", keys...))(t)
	expect.Equal(t, len(found), len(entries), "entries that the other replica loads")
	expect.Equal(t, expect.Metric(t, regA, "tipcache_cache_shared_errors_total")+expect.Metric(t, regB, "tipcache_cache_shared_errors_total"), 0, "errors of the stores")
}

func TestCheckNamesCluster(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t, 2)
	_, err := newStore(t, clusterClient(t, addrs), redis.Options{}).Check(t.Context())
	expect.NoError(t, err)
	for _, addr := range addrs { // neither of them has both keys that Check names
		_, err = newStore(t, redistest.Client(t, addr), redis.Options{}).Check(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), "it is a node of a Cluster: redis.url must have ?cluster=true: MOVED") {
			t.Errorf("Check of a node of the Cluster = %v, want one that names the parameter", err)
		}
	}
}

func TestPurgeReachesAllNodesOfCluster(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t, 2)
	a, b := newStore(t, clusterClient(t, addrs), redis.Options{}), newStore(t, clusterClient(t, addrs), redis.Options{})
	messages := subscribe(t, b)
	entries := map[string]*cache.Entry{"another": entry(100, "body")}
	for i := range 50 {
		entries[fmt.Sprint("many/", i)] = entry(100, "body")
	}
	for _, chain := range []string{"story-1", "story-2"} {
		a.Save(t.Context(), chain, entries, time.Hour)
	}
	sel := cache.Selection{Prefix: "many/"}
	n := expect.Value(a.Purge(t.Context(), sel, "story-1"))(t)
	expect.Equal(t, n, 50, "purged entries")
	for chain, want := range map[string]int{"story-1": 1, "story-2": 51} {
		found := expect.Value(b.Load(t.Context(), chain, slices.Collect(maps.Keys(entries))...))(t)
		expect.Equal(t, len(found), want, "entries of %s after the purge", chain)
	}
	expect.NoError(t, a.AnnouncePurge(t.Context(), "story-1", sel))
	expect.Equal(t, <-messages, "purged many/", "message to the other replica")
}
