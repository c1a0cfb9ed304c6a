package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// servedHeight returns the block of a replica's response, or 0 if it fails.
func servedHeight(t *testing.T, r *instance) int64 {
	t.Helper()
	got := r.get(r.base + "/staking/pool")
	height, _ := strconv.ParseInt(got.header.Get("X-Block-Height"), 10, 64)
	if got.status != 200 {
		height = 0
	}
	return height
}

// waitForHeight waits until a replica serves a block.
func waitForHeight(t *testing.T, r *instance, height int64) {
	t.Helper()
	r.eventually(fmt.Sprint("response at block ", height), func() bool { return servedHeight(t, r) == height })
}

func TestResponsesAreUnconfirmedFromAContradictionUntilTheRollback(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	r := startRunning(t, d, func(c *config.Config) { c.Chain.RollbackAfter, c.Redis.URL = 2*time.Second, "none" })
	d.Advance(60)
	before := d.Height()
	waitForHeight(t, r, before)
	d.RollBack(50)
	marked := 0
	for end := time.Now().Add(time.Minute); ; {
		got := r.get(r.base + "/staking/pool")
		if got.header.Get("X-Block-Height") != strconv.FormatInt(before, 10) {
			break
		}
		isMarked := strings.Contains(got.header.Get("Cache-Status"), "unconfirmed") && strings.Contains(got.header.Get("Cache-Control"), "max-age=0")
		switch {
		case isMarked:
			if marked++; marked == 1 && !strings.Contains(r.get(r.admin+"/metrics").body, "tipcache_node_tip_unconfirmed 1") {
				t.Error("metrics lack tipcache_node_tip_unconfirmed 1")
			}
		case marked > 0:
			t.Fatalf("response %d after the first marked one: Cache-Status %q, Cache-Control %q", marked, got.header.Get("Cache-Status"), got.header.Get("Cache-Control"))
		}
		if time.Now().After(end) {
			t.Fatal("rollback not detected")
		}
	}
	if marked == 0 {
		t.Error("no response was marked as unconfirmed before the rollback")
	}
	waitForHeight(t, r, before-50)
	if got := r.get(r.base + "/staking/pool").header.Get("Cache-Status"); strings.Contains(got, "unconfirmed") {
		t.Errorf("Cache-Status after the rollback = %s, want it confirmed", got)
	}
}

func TestEntriesOfAnotherChainInRedisAreNotServed(t *testing.T) {
	t.Parallel()
	address, _ := redistest.Start(t)
	options := func(c *config.Config) { c.Chain.RollbackAfter, c.Redis.URL = 500*time.Millisecond, "redis://"+address }
	old := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond, StartHeight: 5000})
	shared := redis.NewClient(&redis.Options{Addr: address})
	defer shared.Close()
	t.Run("before", func(t *testing.T) {
		r := startRunning(t, old, options)
		r.eventually("block after 5005", func() bool { return servedHeight(t, r) > 5005 })
		epochKey := "tipcache:1:epoch:{" + old.ChainID() + "}"
		r.eventually("the hash of a block in Redis", func() bool { return shared.HGet(t.Context(), epochKey, "a").Val() != "" })
	})

	reset := newDevnet(t, devnet.Options{Interval: -1, StartHeight: 3000})
	second := startRunning(t, reset, options)
	expectNewChain := func() {
		if got := servedHeight(t, second); got != 3000 && got != 0 {
			t.Fatalf("response at block %d, want 3000 or an error", got)
		}
	}
	second.eventually("another epoch", func() bool { expectNewChain(); return second.ready().Epoch != 0 })
	for range 50 {
		expectNewChain()
	}
	waitForHeight(t, second, 3000)
}

func TestRollbackDoesNotRefillSharedLimits(t *testing.T) {
	t.Parallel()
	shared := miniredis.RunT(t)
	d := newDevnet(t, devnet.Options{Interval: -1})
	r := startRunning(t, d, func(c *config.Config) {
		c.Chain.RollbackAfter, c.Redis.URL, c.HTTP.Rate = 500*time.Millisecond, "redis://"+shared.Addr(), "10000/s"
	})
	buckets := func() (keys []string) {
		for _, key := range shared.Keys() {
			if strings.HasPrefix(key, "tipcache:1:rate:") {
				keys = append(keys, key)
			}
		}
		return keys
	}
	d.Advance(60)
	r.eventually("a bucket in Redis", func() bool { return servedHeight(t, r) == d.Height() && len(buckets()) > 0 })
	before := buckets()
	d.RollBack(50)
	r.eventually("another epoch", func() bool { return r.ready().Epoch != 0 })
	waitForHeight(t, r, d.Height())
	expect.NoDiff(t, buckets(), before, "buckets in Redis after the rollback")
}
