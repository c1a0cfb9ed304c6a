package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestDashboardNeedsOneURL(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	indexer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, "indexer %s", r.URL.Path)
	}))
	defer indexer.Close()
	d := newDevnet(t, devnet.Options{Interval: -1})
	r := startRunning(t, d, func(c *config.Config) {
		c.HTTP.Mounts = []config.Mount{{Path: "/"}, {Path: "/api", Shape: "node", Fallback: indexer.URL + "/api", Always: []string{"/staking/validators", "/staking/validators/{v}"}}}
	})
	for path, want := range map[string]string{
		"/api/network_status":                  "indexer /api/network_status",
		"/api/staking/validators/" + validator: "indexer /api/staking/validators/" + validator,
		"/api/staking/pool":                    r.get(d.NodeURL() + "/staking/pool").body,
		"/api/staking/validators/" + validator + "/delegators/" + delegator + "/period_delegations": r.get(d.NodeURL() + "/staking/validators/" + validator + "/delegators/" + delegator + "/period_delegations").body,
	} {
		got := r.get(r.base + path)
		got.expectStatus(t, http.StatusOK)
		expect.Equal(t, got.body, want, "body of %s", path)
	}
	if got := r.get(r.base + "/staking/validators/" + validator); got.height() == "" || strings.Contains(got.body, "indexer") {
		t.Errorf("validator below the root = %d %s, want the documented response", got.status, got.body)
	}
	r.list(`{"pagination":{"limit":3}}`).expectStatus(t, http.StatusOK)
	down.Store(true) // another test could get the port of a closed server
	name := "fallback " + host(indexer.URL)
	r.eventually("degraded fallback", func() bool {
		r.get(r.base+"/api/network_status").expectStatus(t, http.StatusBadGateway)
		return r.ready().Degraded[name] != ""
	})
	r.get(r.admin+"/readyz").expectStatus(t, http.StatusOK)
}

func TestCheckReportsMounts(t *testing.T) {
	file := writeFile(t, "tipcache.yaml", "http:\n  mounts:\n    - path: /\n    - {path: /api, shape: node, fallback: 'http://indexer:8080'}\n")
	out := expect.Value(runCommand(t, "check", "--config", file))(t)
	expect.Contains(t, out, "Base path /: shape documented, fallback none.\nBase path /api: shape node, fallback http://indexer:8080.\n", "output of check")
}
