package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestDashboardNeedsOneURL(t *testing.T) {
	t.Parallel()
	indexer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "indexer %s", r.URL.Path) }))
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
		if got := r.get(r.base + path); got.status != http.StatusOK || got.body != want {
			t.Errorf("%s = %d %s, want 200 %s", path, got.status, got.body, want)
		}
	}
	if got := r.get(r.base + "/staking/validators/" + validator); got.height() == "" || strings.Contains(got.body, "indexer") {
		t.Errorf("at the root: %d %s, want the documented response", got.status, got.body)
	}
	r.list(`{"pagination":{"limit":3}}`).wants(t, http.StatusOK)
	indexer.Close()
	name := "fallback " + strings.TrimPrefix(indexer.URL, "http://")
	r.eventually("degraded without the fallback", func() bool {
		r.get(r.base+"/api/network_status").wants(t, http.StatusBadGateway)
		return r.ready().Degraded[name] != ""
	})
	r.get(r.admin+"/readyz").wants(t, http.StatusOK)
}

func TestCheckReportsMounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tipcache.yaml")
	text := "http:\n  mounts:\n    - path: /\n    - {path: /api, shape: node, fallback: 'http://indexer:8080'}\n"
	expect.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	var out bytes.Buffer
	err := run(t.Context(), []string{"check", "--config", file}, streams{&out, io.Discard})
	if want := "Base path /: shape documented, fallback none.\nBase path /api: shape node, fallback http://indexer:8080.\n"; err != nil || !strings.Contains(out.String(), want) {
		t.Errorf("check = %v:\n%s\nwant\n%s", err, out.String(), want)
	}
}
