package main

import (
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A backup brings back the change counter of its time, by which pages that were
// read since are newer than the store.
func TestRestoredBackupIsServedAfterPurge(t *testing.T) {
	t.Parallel()
	url := postgrestest.Schema(t)
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: -1}), func(c *config.Config) {
		c.Collections.Store = url
		c.Collections.Policy = cache.Policy{Fresh: 5 * time.Second, Stale: time.Hour, StaleIfError: 2 * time.Hour, Keep: 2 * time.Hour}
	})
	shows := func(count string) bool { return strings.Contains(r.list(`{}`).body, `"licensesCount":`+count) }
	postgrestest.Execute(t, url, `CREATE TABLE backup AS SELECT generation FROM collections_state`)
	postgrestest.Execute(t, url, `UPDATE collections SET licenses_count = 111111`)
	r.eventually("shown as it is", func() bool { return shows("111111") })
	postgrestest.Execute(t, url, `UPDATE collections SET licenses_count = 222222; UPDATE collections_state SET generation = (SELECT generation FROM backup)`)
	time.Sleep(time.Second) // in which the store is looked at twice
	if !shows("111111") {
		t.Error("page changed without a purge, want the cached page")
	}
	if got := r.do("POST", r.admin+"/admin/purge?route=collections", ""); got.status != 200 {
		t.Errorf("purge: %d %s", got.status, got.body)
	}
	if !shows("222222") {
		t.Error("page unchanged after the purge")
	}
}
