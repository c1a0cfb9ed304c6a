package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestAdminListenersCloseIdleConnectionsAboveTheirLimit(t *testing.T) {
	t.Parallel()
	const dialed, limit = 200, 128
	d := newDevnet(t, devnet.Options{})
	index := startProgram(t, nil, indexArgs(d, sqliteURL(t), "--follow", "--admin", "127.0.0.1:0")...)
	for _, address := range []string{startUnready(t, d, nil).Addresses.Admin, host(index.admin())} {
		var closed atomic.Int64
		for range dialed {
			c := expect.Value(net.Dial("tcp", address))(t)
			defer c.Close()
			expect.Value(io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
			from := bufio.NewReader(c)
			resp := expect.Value(http.ReadResponse(from, nil))(t)
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			go func() { // ends at the latest with the test
				if _, err := from.ReadByte(); err != nil {
					closed.Add(1)
				}
			}()
		}
		expect.EventuallyAtLeast(t, "the connections above the limit are closed", closed.Load, dialed-limit)
	}
}

func TestHealthExitStatusFollowsReadiness(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
	ready := startRunning(t, d, nil).Addresses.Admin
	_, port, _ := net.SplitHostPort(ready)
	file := writeFile(t, "tipcache.yaml", "admin: 0.0.0.0:"+port+"\nadmin_token: none\n")
	unready := startUnready(t, d, func(c *config.Config) { c.Chain.ID = "another-1" })
	unready.eventually("ready except for the node", func() bool {
		problems := unready.ready().Problems
		return len(problems) == 1 && problems["node"] != ""
	})
	tests := map[string]struct{ flag, value, out, err string }{
		"ready":                      {"--admin", ready, `"ready":true`, ""},
		"listening on all addresses": {"--config", file, `"ready":true`, ""},
		"not ready":                  {"--admin", unready.Addresses.Admin, "", `"node"`},
		"not running":                {"--admin", "127.0.0.1:1", "", "refused"},
		"without an admin listener":  {"--admin", "none", "", "no listener to query"},
	}
	for name, tt := range tests {
		out, err := runCommand(t, "health", tt.flag, tt.value)
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) || !strings.Contains(out, tt.out) {
			t.Errorf("health of a server that is %s = %q, %v; want %q, %q", name, out, err, tt.out, tt.err)
		}
	}
}

// A mistake in the file does not end a process that rejected it, so a health check must not replace that process.
func TestHealthIgnoresProblemsOfAConfigurationNotInUse(t *testing.T) {
	d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
	admin := startRunning(t, d, nil).Addresses.Admin
	t.Setenv("TIPCACHE_ADMIN", admin)
	for name, text := range map[string]string{"invalid": "chain: {timeout: x}\n", "not YAML": "chain: [\n"} {
		file := writeFile(t, "tipcache.yaml", text)
		if out, err := runCommand(t, "health", "--config", file); err != nil || !strings.Contains(out, `"ready":true`) {
			t.Errorf("health with a file that is %s = %q, %v; want a ready server", name, out, err)
		}
		if _, err := runCommand(t, "health", "--config", file, "--admin", "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "tipcache.yaml:1: ") {
			t.Errorf("health of no server with a file that is %s: error = %v, want the problem of the file", name, err)
		}
	}
}

func TestReadinessAndStatusNameAPIsOfNodesAndListeners(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	s := startRunning(t, d, func(c *config.Config) {
		c.RPC.Listen, c.GRPC.Listen, c.Chain.GRPC = "127.0.0.1:0", "127.0.0.1:0", []string{d.Node().GRPCAddr()}
	})
	state := func(path string) string { return gjson.Get(s.get(s.admin+"/readyz").body, path).String() }
	s.eventually("gRPC of the node is ok", func() bool { return state("nodes.0.grpc") == "ok" })
	for path, want := range map[string]string{
		"nodes.0.rpc": "ok", "nodes.0.tx_index": "on",
		"interfaces.rest": s.Addresses.REST, "interfaces.rpc": s.Addresses.RPC, "interfaces.grpc": s.Addresses.GRPC, "interfaces.grpc_web": s.Addresses.REST,
	} {
		expect.Equal(t, state(path), want, "%s in /readyz", path)
	}
	metrics := s.get(s.admin + "/metrics").body
	for _, name := range []string{"rpc_answering", "grpc_answering", "tx_index"} {
		if !strings.Contains(metrics, "tipcache_node_"+name+`{node="`) || strings.Contains(metrics, "tipcache_node_"+name+`{node="`+strings.TrimPrefix(d.NodeURL(), "http://")+`"} 0`) {
			t.Errorf("tipcache_node_%s is missing or 0, want 1", name)
		}
	}
	for _, name := range []string{"http", "rpc", "grpc"} {
		expect.Contains(t, metrics, "\ntipcache_"+name+"_connections ", "metrics")
	}
	expect.NoError(t, d.Node().SetFaults(devnet.Fault{}, devnet.Fault{Outage: devnet.Refuse}))
	s.eventually("RPC of the node is not ok", func() bool { return state("nodes.0.rpc") != "ok" })
	s.get(s.admin+"/readyz").expectStatus(t, http.StatusOK)
}

func TestCheckReportsUnconfiguredAPIsAsOff(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	s := startRunning(t, d, nil)
	readyz := s.get(s.admin + "/readyz").body
	if got := gjson.Get(readyz, "interfaces").Raw; got != `{"rest":"`+s.Addresses.REST+`","rpc":"none","grpc":"none","grpc_web":"`+s.Addresses.REST+`"}` || gjson.Get(readyz, "nodes.0.tx_index").String() != "off" {
		t.Errorf("/readyz = %s, want rpc and grpc none, and the transaction index off", readyz)
	}
	check := []string{"--collections-auth", "none", "--store", "sqlite::memory:", "--node", d.NodeURL(), "--comet", d.CometURL()}
	for want, args := range map[string][]string{
		"the CometBFT RPC of the nodes is not served": nil,
		"transaction index off":                       nil,
		"during which a node makes no blocks":         {"--rpc-listen", "127.0.0.1:0"},
	} {
		if out, err := checkConnect(t, append(check, args...)...); err != nil || !strings.Contains(out, want) {
			t.Errorf("check --connect = %s, %v; want %q in it", out, err, want)
		}
	}
}

func TestUnconfiguredAPIStartsNoGoroutine(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	packagesOfGoroutines := func(atLeast int, flags ...string) (found []string) {
		p := startProgram(t, nil, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "sqlite::memory:", "--collections-auth", "closed",
			"--node", d.NodeURL(), "--comet", d.CometURL()}, flags...)...)
		admin := p.admin()
		p.waitFor("/readyz", func() bool { status, _ := fetch(t, admin+"/readyz"); return status == http.StatusOK })
		p.waitFor(fmt.Sprintf("%d packages with goroutines", atLeast), func() bool {
			_, stacks := fetch(t, admin+"/debug/pprof/goroutine?debug=2")
			found = nil
			for _, name := range []string{"tipcache/proxy/rpc", "tipcache/proxy/grpc", "tipcache/upstream/events", "google.golang.org/grpc"} {
				if strings.Contains(stacks, name) {
					found = append(found, name)
				}
			}
			return len(found) >= atLeast
		})
		return found
	}
	if got := packagesOfGoroutines(0); len(got) > 0 {
		t.Errorf("packages with goroutines, without RPC and gRPC = %v, want none", got)
	}
	packagesOfGoroutines(2, "--rpc-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--grpc", d.Node().GRPCAddr())
}

// records returns the lines of a log, which must be JSON.
func records(t *testing.T, log string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("log line %s: %v", line, err)
		}
		all = append(all, record)
	}
	return all
}

func TestErrorThatEndsServeIsLogged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"invalid setting": {[]string{"--shape", "round"}, "--shape: chain.shape"},
		"missing file":    {[]string{"--config", "missing.yaml"}, "missing.yaml"},
		"address in use": {
			[]string{"--listen", usedAddress(t), "--admin", "none", "--node", "none", "--store", "sqlite::memory:", "--collections-auth", "none"},
			"address already in use",
		},
	} {
		p := startProgram(t, nil, append([]string{"serve"}, tt.args...)...)
		p.waitForEnd()
		expect.Equal(t, p.cmd.ProcessState.ExitCode(), 1, "%s: exit status", name)
		all := records(t, p.output.String())
		if len(all) == 0 {
			t.Fatalf("%s: nothing was logged", name)
		}
		last := all[len(all)-1]
		if text, _ := last["error"].(string); last["level"] != "ERROR" || last["msg"] != "serve ended with an error" || !strings.Contains(text, tt.want) {
			t.Errorf("%s: last log line = %v, want an error with %q", name, last, tt.want)
		}
	}
}
