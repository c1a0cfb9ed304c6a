package main

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A neighbour in Redis knows the format of all that is written there, and not the
// key that it is sealed with.
func TestUnsignedEpochInRedisDropsNoCache(t *testing.T) {
	t.Parallel()
	address, _ := realRedis(t)
	d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
	options := func(c *config.Config) {
		c.Chain.RollbackAfter, c.Redis.URL = 5*time.Second, "redis://"+address
		c.Redis.SealKey = "known to the replicas alone"
	}
	a, b := startRunning(t, d, options), startRunning(t, d, options)
	neighbour := redis.NewClient(&redis.Options{Addr: address})
	t.Cleanup(func() { _ = neighbour.Close() })
	var at string
	a.eventually("an agreement", func() bool {
		keys := neighbour.Keys(t.Context(), "tipcache:1:epoch.*:{"+url.QueryEscape(d.ChainID())+"}").Val()
		if len(keys) == 1 {
			at = keys[0]
		}
		return at != "" && neighbour.HGet(t.Context(), at, "a").Val() != ""
	})

	later := time.Now().Add(time.Hour).Unix()
	for range 5 { // which the replicas overwrite
		must(t, neighbour.HSet(t.Context(), at, "e", later, "a", "1:ff 999999:ee", "t", 1).Err())
		a.eventually("overwritten", func() bool { return neighbour.HGet(t.Context(), at, "e").Val() == "0" })
	}
	for _, r := range []*running{a, b} {
		if got := r.ready().Epoch; got != 0 {
			t.Errorf("epoch %d", got)
		}
	}
	foreign := func(r *running) bool {
		return !strings.Contains(r.get(r.admin+"/metrics").body, `tipcache_cache_shared_errors_total{kind="foreign"} 0`)
	}
	if !foreign(a) && !foreign(b) {
		t.Error("no replica counted the rejected write")
	}
}
