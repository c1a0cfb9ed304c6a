package cache_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A server is a running redis-server.
type server struct {
	addr string
	kill func() // ends it without a shutdown
}

func startRedis(t testing.TB, args ...string) *server {
	t.Helper()
	addr, kill := redistest.Start(t, args...)
	return &server{addr, kill}
}

// newSharedCache returns a cache that shares Redis with other replicas. The default timeouts are long enough for a busy
// machine.
func newSharedCache(t testing.TB, rdb goredis.UniversalClient, o cache.Options, so redis.Options) *cache.Cache {
	t.Helper()
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	so.Now, so.Registerer, so.Timeout = o.Now, o.Registerer, cmp.Or(so.Timeout, time.Minute)
	o.FlightTimeout, o.Patience = cmp.Or(o.FlightTimeout, 5*time.Minute), cmp.Or(o.Patience, time.Minute)
	o.Shared = expect.Value(redis.New(rdb, so))(t)
	return newCache(t, o)
}

// newReplica returns a replica of the chain story-1, which may not be subscribed yet.
func newReplica(t testing.TB, addr string, o cache.Options, so redis.Options) *cache.Cache {
	t.Helper()
	c := newSharedCache(t, redistest.Client(t, addr), o, so)
	c.SetNamespace("story-1")
	return c
}

// startReplica returns a replica of the chain story-1 that is subscribed.
func startReplica(t testing.TB, addr string, so redis.Options) *cache.Cache {
	t.Helper()
	return startReplicaOf(t, redistest.Client(t, addr), "story-1", so)
}

// startReplicaOf returns a replica of a chain that is subscribed.
func startReplicaOf(t testing.TB, rdb goredis.UniversalClient, chain string, so redis.Options) *cache.Cache {
	t.Helper()
	before := subscriptions(t, rdb)
	c := newSharedCache(t, rdb, cache.Options{}, so)
	c.SetNamespace(chain)
	expect.EventuallyAtLeast(t, "the replica is subscribed", func() int64 { return subscriptions(t, rdb) }, before+1)
	return c
}

// subscriptions returns the number of replicas that are subscribed.
func subscriptions(t testing.TB, rdb goredis.UniversalClient) (sum int64) {
	t.Helper()
	expect.Eventually(t, "Redis counts its subscribers", func() bool {
		counts, err := rdb.PubSubNumSub(t.Context(), "tipcache:2:story-1", "tipcache:2:story-2").Result()
		sum = counts["tipcache:2:story-1"] + counts["tipcache:2:story-2"]
		return err == nil
	})
	return sum
}
