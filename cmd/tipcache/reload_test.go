package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// serving is the command as an operator runs it.
type serving struct {
	running
	file string
	log  chan map[string]any
}

// startServing runs serve with a file, until the test ends.
func startServing(t *testing.T, d *devnet.Devnet, settings string) *serving {
	t.Helper()
	s := &serving{file: filepath.Join(t.TempDir(), "tipcache.yaml"), log: make(chan map[string]any, 1000)}
	s.running = running{t: t, devnet: d}
	s.write(settings)
	ctx, stop := context.WithCancel(context.Background())
	ended, logged := make(chan error, 1), make(chan struct{})
	r, w := io.Pipe()
	go func() {
		defer close(logged)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			var record map[string]any
			_ = json.Unmarshal(lines.Bytes(), &record)
			s.log <- record
		}
	}()
	go func() { ended <- run(ctx, []string{"serve", "--config", s.file}, streams{io.Discard, w}) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve ended with %v", err)
		}
		_ = w.Close()
		<-logged
	})
	started := s.waitFor("serving")
	s.base, s.admin = "http://"+started["listen"].(string), "http://"+started["admin"].(string)
	return s
}

// write makes the file that serve reads.
func (s *serving) write(settings string) {
	s.t.Helper()
	common := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nchain: {nodes: [%q], comet: [%q]}\n", s.devnet.NodeURL(), s.devnet.CometURL())
	expect.NoError(s.t, os.WriteFile(s.file, []byte(common+settings), 0o600))
}

// waitFor returns the next record with this message.
func (s *serving) waitFor(message string) map[string]any {
	s.t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case record := <-s.log:
			if record["msg"] == message {
				return record
			}
		case <-timeout:
			s.t.Fatalf("never logged: %s", message)
		}
	}
}

func (s *serving) hangup(settings, message string) map[string]any {
	s.t.Helper()
	s.write(settings)
	expect.NoError(s.t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	return s.waitFor(message)
}

func (s *serving) status(key string) int {
	s.t.Helper()
	s.key = key
	return s.list(`{}`).status
}

func TestSIGHUPReloadsSettings(t *testing.T) {
	oldKey, oldLine := keyFrom(t, "web")
	key, line := keyFrom(t, "web")
	const store = "collections: {store: 'sqlite::memory:', keys: ['%s']}\n"
	s := startServing(t, newDevnet(t, devnet.Options{}), fmt.Sprintf(store, oldLine))
	if got := s.status(oldKey); got != 200 {
		t.Fatalf("status %d", got)
	}

	got := s.hangup(fmt.Sprintf(store, line)+"cache: {memory: 64MiB}\nlog: {level: debug}\nhttp: {rate: 3/h}\nclasses: {live: {stale_blocks: 9}}\nroutes: {pool: {fresh_blocks: 3}}\nadmin_token: a token that is long\n", "configuration reloaded")
	delete(got, "time")
	want := map[string]any{
		"level": "WARN", "msg": "configuration reloaded", "needs_restart": []any{"cache.memory"},
		"changed": []any{"admin_token", "classes.live.stale_blocks", "routes", "collections.keys", "http.rate", "log.level"},
	}
	expect.NoDiff(t, got, want, "log")
	if got := []int{s.status(oldKey), s.status(key), s.status(key), s.status(key)}; !cmp.Equal(got, []int{401, 200, 200, 429}) {
		t.Errorf("with the old key, and the new one up to its address's limit: %v", got)
	}
	s.get(s.admin+"/debug/pprof/cmdline").wants(t, 401)

	expect.Equal(t, sample(t, s.admin, "tipcache_config_last_reload_success"), "1", "success of the reload")
	for bad, want := range map[string]string{
		"log: {level: loud}\n":                   "tipcache.yaml:5: log.level: \"loud\"",
		"nonsense":                               "tipcache.yaml:5: ",
		"routes: {nowhere: {fresh_blocks: 1}}\n": "tipcache.yaml:5: routes.nowhere: ",
		"routes: {pool: {fresh_blocks: many}}\n": "tipcache.yaml:5: routes.pool.fresh_blocks: ",
	} {
		refused := s.hangup(fmt.Sprintf(store, oldLine)+bad, "rejected configuration, keeping the current one")
		if why := refused["error"].(string); !strings.Contains(why, want) || strings.Contains(why, "\n") {
			t.Errorf("%q is refused for %q", bad, why)
		}
		expect.Equal(t, sample(t, s.admin, "tipcache_config_last_reload_success"), "0", "success of the reload after it")
	}
	refused := s.hangup("collections: {store: 'sqlite::memory:', auth: none}\n", "rejected configuration without a restart, keeping the current one")
	expect.Contains(t, refused["error"].(string), "collections.keys", "refusal to take required keys away")
	if got := s.status(oldKey); got != 429 && got != 401 {
		t.Errorf("what was refused is in force: status %d", got)
	}
	s.hangup(fmt.Sprintf(store, line), "configuration reloaded")
	expect.NoDiff(t, []int{s.status(oldKey), s.status(key)}, []int{401, 200}, "statuses after the last change")
}

func TestSIGHUPReplacesNodes(t *testing.T) {
	d := newDevnet(t, devnet.Options{})
	s := startServing(t, d, "")
	target := expect.Value(url.Parse(d.NodeURL()))(t)
	var reads atomic.Int64
	second := relay(t, d.NodeURL(), func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") == "secret" {
			reads.Add(1)
		}
		next.ServeHTTP(w, r)
	})
	nodes := func(nodes, comet string) string { return "chain: {nodes: [" + nodes + "], comet: [" + comet + "]}\n" }
	reload := func(chain, message string) map[string]any {
		t.Helper()
		expect.NoError(t, os.WriteFile(s.file, []byte("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"+chain), 0o600))
		expect.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		return s.waitFor(message)
	}
	got := reload(nodes("'"+second.URL+" header X-Key=secret'", d.CometURL()), "configuration reloaded")
	expect.NoDiff(t, got["changed"], []any{"chain.nodes"}, "changed settings")
	d.Advance(1)
	if got := s.get(s.base + "/staking/pool"); got.status != http.StatusOK || reads.Load() == 0 {
		t.Errorf("a read after the reload = %d, and the second node got %d requests; want 200 and some", got.status, reads.Load())
	}
	if got := s.get(s.admin + "/readyz"); strings.Contains(got.body, target.Host) || !strings.Contains(got.body, strings.TrimPrefix(second.URL, "http://")) {
		t.Errorf("/readyz = %s, want the second node alone", got.body)
	}
	s.eventually("were the series of the removed node gone", func() bool { // once its requests have ended
		return !strings.Contains(s.get(s.admin+"/metrics").body, `node="`+target.Host)
	})
	refused := reload(nodes("'"+second.URL+"'", "none"), "rejected configuration, keeping the current one")
	expect.Contains(t, refused["error"].(string), "chain.nodes: with these nodes", "refusal of nodes without CometBFT")
	refused = reload(nodes("'"+second.URL+" first'", d.CometURL()), "rejected configuration, keeping the current one")
	expect.Contains(t, refused["error"].(string), "chain.nodes[0]: expected URL", "refusal of a word after the address")
}

func TestSIGHUPDoesNotEndDrain(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	p := startProgram(t, []string{"TIPCACHE_HTTP_DRAIN_DELAY=3s", "TIPCACHE_COLLECTIONS_STORE=sqlite::memory:", "TIPCACHE_COLLECTIONS_AUTH=none"}, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--node", d.NodeURL(), "--comet", d.CometURL())
	p.admin()
	for _, step := range []struct {
		signal os.Signal
		logged string
	}{{syscall.SIGHUP, "configuration reloaded"}, {syscall.SIGTERM, "draining"}, {syscall.SIGHUP, ""}} {
		expect.NoError(t, p.cmd.Process.Signal(step.signal))
		p.until(func() bool { return strings.Contains(p.said.String(), step.logged) })
	}
	<-p.ended
	if got := p.cmd.ProcessState; !got.Success() {
		t.Errorf("serve ended with %s: %s", got, p.said.String())
	}
}

// The name is that of a route of Story, too, which has another class.
func TestSIGHUPKeepsClassOfAddedRoute(t *testing.T) {
	t.Setenv("TIPCACHE_CHAIN_ROWS", "pool "+sdkPool+" params cheap")
	const settings = "collections: {store: 'sqlite::memory:', auth: none}\nclasses: {params: {fresh_blocks: 1000, stale_blocks: 2000}}\nroutes: {pool: {stale: 30m}}\n"
	for name, faults := range map[string]devnet.Faults{
		"the dialect was found at the start": {},
		"it was found later":                 {Node: devnet.Fault{Outage: devnet.Refuse}, Comet: devnet.Fault{Outage: devnet.Refuse}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: time.Second})
			expect.NoError(t, d.SetFaults(faults))
			s := startServing(t, d, settings)
			expect.NoError(t, d.SetFaults(devnet.Faults{}))
			for i, when := range []string{"at first", "after SIGHUP", "after another"} {
				if i > 0 {
					s.hangup(settings+strings.Repeat("# changed\n", i), "configuration reloaded")
				}
				var serves int
				s.eventually("an answer that tells how long it serves", func() bool {
					got := s.get(s.base + sdkPool)
					_, err := fmt.Sscanf(got.header.Get("Cache-Control"), "public, max-age=%d", &serves)
					return got.status == http.StatusOK && err == nil && serves > 0
				})
				if serves < 20 {
					t.Errorf("%s the answer serves for %d s, not for the blocks of its class", when, serves)
				}
			}
		})
	}
}
