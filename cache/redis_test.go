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
	store := expect.Value(redis.New(rdb, so))(t)
	o.Shared = store
	return newCache(t, o)
}
