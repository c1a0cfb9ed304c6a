package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// heightOf is the block that a replica answers at, 0 for none.
func heightOf(t *testing.T, r *running) int64 {
	t.Helper()
	got := r.get(r.base + "/staking/pool")
	height, _ := strconv.ParseInt(got.header.Get("X-Block-Height"), 10, 64)
	if got.status != 200 {
		height = 0
	}
	return height
}

// comes waits until a replica answers at a height.
func comes(t *testing.T, r *running, height int64) {
	t.Helper()
	r.eventually(fmt.Sprint("answered at block ", height), func() bool { return heightOf(t, r) == height })
}

func TestResponsesAreUnconfirmedFromAContradictionUntilTheRollback(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	r := startRunning(t, d, func(c *config.Config) { c.Chain.RollbackAfter, c.Redis.URL = 2*time.Second, "none" })
	d.Advance(60)
	before := d.Height()
	comes(t, r, before)
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
				t.Error("tipcache_node_tip_unconfirmed != 1")
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
	comes(t, r, before-50)
	if got := r.get(r.base + "/staking/pool").header.Get("Cache-Status"); strings.Contains(got, "unconfirmed") {
		t.Errorf("after the rollback: %s", got)
	}
}

func TestEntriesOfAnotherChainInRedisAreNotServed(t *testing.T) {
	t.Parallel()
	address, _ := realRedis(t)
	options := func(c *config.Config) { c.Chain.RollbackAfter, c.Redis.URL = 500*time.Millisecond, "redis://"+address }
	old := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond, StartHeight: 5000})
	t.Run("before", func(t *testing.T) {
		r := startRunning(t, old, options)
		r.eventually("blocks", func() bool { return heightOf(t, r) > 5005 })
	})

	reset := newDevnet(t, devnet.Options{Interval: -1, StartHeight: 3000})
	second := startRunning(t, reset, options)
	ours := func() {
		if got := heightOf(t, second); got != 3000 && got != 0 {
			t.Fatalf("answered at %d, want 3000", got)
		}
	}
	second.eventually("in another epoch", func() bool { ours(); return second.ready().Epoch != 0 })
	for range 50 {
		ours()
	}
	comes(t, second, 3000)
}
