package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// A configuredServer is the command serve with a configuration file.
type configuredServer struct {
	instance
	file  string
	log   logtest.Log
	found int // length of the log up to the last record that waitFor returned
}

// listenAnywhere has the listeners of most configuration files of tests.
const listenAnywhere = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"

// startServing runs serve with settings and the nodes of d in a file, until the test ends.
func startServing(t *testing.T, d *devnet.Devnet, settings string) *configuredServer {
	t.Helper()
	return serveFile(t, d, withNodes(d)+settings)
}

// withNodes returns the settings of a server in front of d.
func withNodes(d *devnet.Devnet) string {
	return fmt.Sprintf("%schain: {nodes: [%q], comet: [%q]}\n", listenAnywhere, d.NodeURL(), d.CometURL())
}

// serveFile runs serve with a configuration file, until the test ends.
func serveFile(t *testing.T, d *devnet.Devnet, text string) *configuredServer {
	t.Helper()
	s := &configuredServer{file: writeFile(t, "tipcache.yaml", text)}
	s.t, s.devnet = t, d
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"serve", "--config", s.file}, streams{&s.log, &s.log}) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve ended with %v", err)
		}
	})
	started := s.waitForLog("serving")
	s.base, s.admin = "http://"+started["listen"].(string), "http://"+started["admin"].(string)
	return s
}

// waitForLog returns the next record with this message.
func (s *configuredServer) waitForLog(message string) (record map[string]any) {
	s.t.Helper()
	s.eventually("logged "+message, func() bool {
		for line := range strings.Lines(s.log.String()[s.found:]) {
			s.found += len(line)
			record = nil
			if _ = json.Unmarshal([]byte(line), &record); record["msg"] == message {
				return true
			}
		}
		return false
	})
	return record
}

// reload replaces the settings that follow the settings of withNodes, and waits for a log message.
func (s *configuredServer) reload(settings, message string) map[string]any {
	s.t.Helper()
	return s.reloadFile(withNodes(s.devnet)+settings, message)
}

func (s *configuredServer) reloadFile(text, message string) map[string]any {
	s.t.Helper()
	expect.NoError(s.t, os.WriteFile(s.file, []byte(text), 0o600))
	expect.NoError(s.t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	return s.waitForLog(message)
}

// status returns the status of a listing with a key.
func (s *configuredServer) status(key string) int {
	s.t.Helper()
	s.key = key
	return s.list(`{}`).status
}

func TestPipeIsNotReadAgain(t *testing.T) {
	s := startServing(t, newDevnet(t, devnet.Options{}), "")
	expect.NoError(t, os.Remove(s.file))
	expect.NoError(t, syscall.Mkfifo(s.file, 0o600))
	expect.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	record := s.waitForLog("rejected configuration, keeping the current one")
	expect.Contains(t, fmt.Sprint(record["error"]), "cannot be read again", "error")
}

func TestUnusableCertificateBlocksNoReload(t *testing.T) {
	_, leaked := createKey(t, "web")
	_, line := createKey(t, "web")
	files, _ := createCertificate(t)
	const settings = "collections: {store: 'sqlite::memory:', keys: ['%s']}\nhttp: {tls: {cert: %s, key: %s}}\n"
	s := startServing(t, newDevnet(t, devnet.Options{}), fmt.Sprintf(settings, leaked, files.Cert, files.Key))
	expect.NoError(t, os.WriteFile(files.Key, []byte("half a key"), 0o600))

	got := s.reload(fmt.Sprintf(settings, line, files.Cert, files.Key), "configuration reloaded")
	expect.NoDiff(t, got["changed"], any([]any{"collections.keys"}), "changed settings")
	expect.Value(runCommand(t, "health", "--config", s.file, "--admin", strings.Replace(s.admin, "http:", "https:", 1)))(t)
}

func TestSIGHUPReloadsSettings(t *testing.T) {
	oldKey, oldLine := createKey(t, "web")
	key, line := createKey(t, "web")
	const store = "collections: {store: 'sqlite::memory:', keys: ['%s']}\n"
	s := startServing(t, newDevnet(t, devnet.Options{}), fmt.Sprintf(store, oldLine))
	expect.Equal(t, s.status(oldKey), http.StatusOK, "status with the old key before the reload")

	got := s.reload(fmt.Sprintf(store, line)+"cache: {memory: 64MiB}\nlog: {level: debug}\nhttp: {rate: 3/h}\nclasses: {live: {stale_blocks: 9}}\nroutes: {pool: {fresh_blocks: 3}}\nadmin_token: a token that is long\n", "configuration reloaded")
	delete(got, "time")
	want := map[string]any{
		"level": "WARN", "msg": "configuration reloaded", "needs_restart": []any{"cache.memory"},
		"changed": []any{"admin_token", "classes.live.stale_blocks", "routes", "collections.keys", "http.rate", "log.level"},
	}
	expect.NoDiff(t, got, want, "log")
	statuses := []int{s.status(oldKey), s.status(key), s.status(key), s.status(key)}
	expect.NoDiff(t, statuses, []int{401, 200, 200, 429}, "statuses with the old key once and the new key until the limit of its address")
	s.get(s.admin+"/debug/pprof/cmdline").expectStatus(t, 401)

	expect.Equal(t, s.metricSum("tipcache_config_last_reload_success"), 1, "tipcache_config_last_reload_success")
	for bad, want := range map[string]string{
		"log: {level: loud}\n":                   "tipcache.yaml:5: log.level: \"loud\"",
		"nonsense":                               "tipcache.yaml:5: ",
		"routes: {nowhere: {fresh_blocks: 1}}\n": "tipcache.yaml:5: routes.nowhere: ",
		"routes: {pool: {fresh_blocks: many}}\n": "tipcache.yaml:5: routes.pool.fresh_blocks: ",
	} {
		refused := s.reload(fmt.Sprintf(store, oldLine)+bad, "rejected configuration, keeping the current one")
		if why := refused["error"].(string); !strings.Contains(why, want) || strings.Contains(why, "\n") {
			t.Errorf("error for %q = %q, want one line with %q", bad, why, want)
		}
		expect.Equal(t, s.metricSum("tipcache_config_last_reload_success"), 0, "tipcache_config_last_reload_success after %q", bad)
	}
	refused := s.reload("collections: {store: 'sqlite::memory:', auth: none}\n", "rejected configuration without a restart, keeping the current one")
	expect.Contains(t, refused["error"].(string), "collections.keys", "error for removing the required keys")
	if got := s.status(oldKey); got != 429 && got != 401 {
		t.Errorf("status with a rejected key = %d, want 401 or 429", got)
	}
	s.reload(fmt.Sprintf(store, line), "configuration reloaded")
	expect.NoDiff(t, []int{s.status(oldKey), s.status(key)}, []int{401, 200}, "statuses after the last change")
}

func TestSIGHUPReplacesNodes(t *testing.T) {
	d := newDevnet(t, devnet.Options{})
	s := startServing(t, d, "")
	var reads atomic.Int64
	second := relay(t, d.NodeURL(), func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") == "secret" {
			reads.Add(1)
		}
		next.ServeHTTP(w, r)
	})
	reload := func(nodes, comet, message string) map[string]any {
		t.Helper()
		return s.reloadFile(listenAnywhere+"chain: {nodes: ['"+nodes+"'], comet: ["+comet+"]}\n", message)
	}
	got := reload(second.URL+" header X-Key=secret", d.CometURL(), "configuration reloaded")
	expect.NoDiff(t, got["changed"], []any{"chain.nodes"}, "changed settings")
	s.eventually("requests to the second node", func() bool { // the first one is read until it has answered
		d.Advance(1)
		expect.Equal(t, s.get(s.base+"/staking/pool").status, http.StatusOK, "status of a read after the reload")
		return reads.Load() > 0
	})
	if got := s.get(s.admin + "/readyz"); strings.Contains(got.body, host(d.NodeURL())) || !strings.Contains(got.body, host(second.URL)) {
		t.Errorf("/readyz = %s, want only the second node", got.body)
	}
	s.eventually("no metrics of the removed node", func() bool { // once its requests have ended
		return !strings.Contains(s.get(s.admin+"/metrics").body, `node="`+host(d.NodeURL()))
	})
	refused := reload(second.URL, "none", "rejected configuration, keeping the current one")
	expect.Contains(t, refused["error"].(string), "chain.nodes: these nodes have", "error for nodes without CometBFT")
	refused = reload(second.URL+" first", d.CometURL(), "rejected configuration, keeping the current one")
	expect.Contains(t, refused["error"].(string), "chain.nodes[0]: expected URL", "error for a word after the address")
}

func TestSIGHUPDoesNotEndDrain(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	p := startProgram(t, []string{"TIPCACHE_HTTP_DRAIN_DELAY=0s", "TIPCACHE_COLLECTIONS_STORE=sqlite::memory:", "TIPCACHE_COLLECTIONS_AUTH=none"}, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--node", d.NodeURL(), "--comet", d.CometURL())
	request := beginPost(t, p.address("listen"), "/api/v4/collections", "Content-Type: application/json", 2) // keeps the drain going
	for _, step := range []struct {
		signal os.Signal
		logged string
	}{{syscall.SIGHUP, "configuration reloaded"}, {syscall.SIGTERM, "draining"}, {syscall.SIGHUP, ""}} {
		expect.NoError(t, p.cmd.Process.Signal(step.signal))
		p.waitFor("logged "+step.logged, func() bool { return strings.Contains(p.output.String(), step.logged) })
	}
	fmt.Fprint(request, "{}")
	p.waitForEnd()
	if got := p.cmd.ProcessState; !got.Success() {
		t.Errorf("serve ended with %s, want success: %s", got, p.output.String())
	}
}

// Story has a route with the same name in another class.
func TestSIGHUPKeepsClassOfAddedRoute(t *testing.T) {
	t.Setenv("TIPCACHE_CHAIN_ROWS", "pool "+sdkPool+" params cheap")
	const settings = "collections: {store: 'sqlite::memory:', auth: none}\nclasses: {params: {fresh_blocks: 1000, stale_blocks: 2000}}\nroutes: {pool: {stale: 30m}}\n"
	s := startServing(t, newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: time.Second}), settings)
	for reloads := range 3 {
		if reloads > 0 {
			s.reload(settings+strings.Repeat("# changed\n", reloads), "configuration reloaded")
		}
		var maxAge int
		s.eventually("response with a max-age", func() bool {
			got := s.get(s.base + sdkPool)
			_, err := fmt.Sscanf(got.header.Get("Cache-Control"), "public, max-age=%d", &maxAge)
			return got.status == http.StatusOK && err == nil && maxAge > 0
		})
		if maxAge < 20 {
			t.Errorf("max-age after %d reloads = %d, want at least 20, as the class has", reloads, maxAge)
		}
	}
}
