package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestIndexCommandReportsProgress(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	// An admin of the configuration is that of serve: index leaves it alone.
	p := startProgram(t, []string{"TIPCACHE_ADMIN=0.0.0.0:1"},
		"index", "--follow", "--admin", "127.0.0.1:0", "--evm", d.EVMURL(), "--network", "aeneid", "--store", sqliteURL(t))
	admin := p.admin()
	defer http.DefaultClient.CloseIdleConnections()
	head := d.EVM().Height()
	var ready indexReadiness
	p.until(func() bool {
		status, body := ask(t, admin+"/readyz")
		if err := json.Unmarshal([]byte(body), &ready); err != nil || status != http.StatusOK || !ready.Ready {
			t.Fatalf("%v, %d %s", err, status, body)
		}
		return ready.Index.Block == head && ready.Index.Blocks != nil && *ready.Index.Blocks == 0
	})
	if ready.Index.Chain != 1315 || ready.Index.Block != head || !ready.Index.Running {
		t.Errorf("readyz: %+v", ready.Index)
	}
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/debug/pprof/": 404, "/admin/purge": 404} {
		if status, body := ask(t, admin+path); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for _, name := range []string{`tipcache_indexer_state{state="unverified"}`, "tipcache_indexer_cursor_block", "go_goroutines"} {
		if sample(t, admin, name) == "" {
			t.Errorf("there is no %s", name)
		}
	}
	taken := strings.TrimPrefix(admin, "http://")
	expect.NoError(t, run(t.Context(), []string{"health", "--admin", taken}, streams{io.Discard, io.Discard}))
	dir := t.TempDir()
	files := config.TLS{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	certify(t, files, 1)
	_, err := runs(t, "health", "--config", configFile(t, files), "--admin", taken)
	expect.Contains(t, fmt.Sprint(err), "the admin listener does not speak TLS", "error of health")
	args := []string{"index", "--admin", taken, "--evm", d.EVMURL(), "--network", "aeneid", "--store", "sqlite::memory:"}
	if err := run(t.Context(), args, streams{io.Discard, io.Discard}); err == nil || !strings.Contains(err.Error(), "admin: ") {
		t.Errorf("an address that is taken: %v", err)
	}
}

func TestIndexCommandIsNotReadyWithoutStore(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	p := startProgram(t, nil, "index", "--follow", "--admin", "127.0.0.1:0", "--evm", d.EVMURL(), "--network", "aeneid",
		"--store", "postgres://nobody@127.0.0.1:1/nothing")
	status, body := ask(t, p.admin()+"/readyz")
	http.DefaultClient.CloseIdleConnections()
	if status != http.StatusServiceUnavailable || !strings.Contains(body, `"store":"the collection store`) {
		t.Errorf("%d %s", status, body)
	}
}
