package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestIndexCommandReportsProgress(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	// index ignores the admin address of the configuration, which belongs to serve.
	p := startProgram(t, []string{"TIPCACHE_ADMIN=0.0.0.0:1"}, indexArgs(d, sqliteURL(t), "--follow", "--admin", "127.0.0.1:0")...)
	admin := p.admin()
	defer http.DefaultClient.CloseIdleConnections()
	head := d.EVM().Height()
	var ready indexReadiness
	p.waitFor("the indexer to reach the head", func() bool {
		status, body := fetch(t, admin+"/readyz")
		if err := json.Unmarshal([]byte(body), &ready); err != nil || status != http.StatusOK || !ready.Ready {
			t.Fatalf("/readyz = %d %s, %v; want 200 and ready", status, body, err)
		}
		return ready.Index.Block == head && ready.Index.Blocks != nil && *ready.Index.Blocks == 0
	})
	if ready.Index.Chain != 1315 || ready.Index.Block != head || !ready.Index.Running {
		t.Errorf("index in /readyz = %+v, want it running on chain 1315 at block %d", ready.Index, head)
	}
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/debug/pprof/": 404, "/admin/purge": 404} {
		status, _ := fetch(t, admin+path)
		expect.Equal(t, status, want, "status of %s", path)
	}
	_, metrics := fetch(t, admin+"/metrics")
	for _, name := range []string{`tipcache_indexer_state{state="unverified"}`, "tipcache_indexer_cursor_block", "go_goroutines"} {
		expect.Contains(t, metrics, "\n"+name+" ", "metrics")
	}
	address := host(admin)
	expect.Value(runCommand(t, "health", "--admin", address))(t)
	files, _ := createCertificate(t)
	_, err := runCommand(t, "health", "--config", configWithTLS(t, files), "--admin", address)
	expect.Contains(t, fmt.Sprint(err), "the admin listener does not speak TLS", "error of health")
	_, err = runCommand(t, indexArgs(d, "sqlite::memory:", "--admin", address)...)
	expect.Contains(t, fmt.Sprint(err), "admin: ", "error of index with an address in use")
}

func TestIndexCommandIsNotReadyWithoutStore(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	p := startProgram(t, nil, indexArgs(d, "postgres://nobody@127.0.0.1:1/nothing", "--follow", "--admin", "127.0.0.1:0")...)
	status, body := fetch(t, p.admin()+"/readyz")
	http.DefaultClient.CloseIdleConnections()
	expect.Response(t, "/readyz", status, body, http.StatusServiceUnavailable, `"store":"the collection store`)
}

func TestRebuildReportsProgressAndEndsWhenInterrupted(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	expect.NoError(t, d.SetFaults(devnet.Faults{EVM: devnet.Fault{Stall: true}}))
	p := startProgram(t, nil, indexArgs(d, sqliteURL(t), "--rebuild", "--admin", "127.0.0.1:0")...)
	status, body := fetch(t, p.admin()+"/readyz")
	http.DefaultClient.CloseIdleConnections()
	expect.Response(t, "/readyz", status, body, http.StatusOK, `"running":`)
	p.interrupt()
	expect.Contains(t, p.output.String(), "rebuild interrupted", "log")
}

func TestRebuildHasOneAdminListenerUntilTheEnd(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	p := startProgram(t, nil, indexArgs(d, sqliteURL(t), "--rebuild", "--follow", "--admin", "127.0.0.1:0")...)
	admin := p.admin()
	defer http.DefaultClient.CloseIdleConnections()
	p.waitFor("the rebuilt store at the head", func() bool {
		var ready indexReadiness
		_, body := fetch(t, admin+"/readyz")
		expect.NoError(t, json.Unmarshal([]byte(body), &ready))
		return strings.Contains(p.output.String(), "rebuild swapped into the store") && ready.Index.Running && ready.Index.Block == d.EVM().Height()
	})
	p.waitFor("the metric of the cursor", func() bool {
		_, metrics := fetch(t, admin+"/metrics")
		return strings.Contains(metrics, "\ntipcache_indexer_cursor_block ")
	})
}
