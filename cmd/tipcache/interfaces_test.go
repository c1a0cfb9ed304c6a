package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

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
		"interfaces.rest": s.Addr(), "interfaces.rpc": s.RPCAddr(), "interfaces.grpc": s.GRPCAddr(), "interfaces.grpc_web": s.Addr(),
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
	if got := gjson.Get(readyz, "interfaces").Raw; got != `{"rest":"`+s.Addr()+`","rpc":"none","grpc":"none","grpc_web":"`+s.Addr()+`"}` || gjson.Get(readyz, "nodes.0.tx_index").String() != "off" {
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
	packagesOfGoroutines := func(flags ...string) (found []string) {
		p := startProgram(t, nil, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "sqlite::memory:", "--collections-auth", "closed",
			"--node", d.NodeURL(), "--comet", d.CometURL()}, flags...)...)
		admin := p.admin()
		p.waitFor("/healthz", func() bool { status, _ := fetch(t, admin+"/healthz"); return status == http.StatusOK })
		_, stacks := fetch(t, admin+"/debug/pprof/goroutine?debug=2")
		for _, name := range []string{"tipcache/proxy/rpc", "tipcache/proxy/grpc", "tipcache/upstream/events", "google.golang.org/grpc"} {
			if strings.Contains(stacks, name) {
				found = append(found, name)
			}
		}
		return found
	}
	if got := packagesOfGoroutines(); len(got) > 0 {
		t.Errorf("packages with goroutines, without RPC and gRPC = %v, want none", got)
	}
	if got := packagesOfGoroutines("--rpc-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--grpc", d.Node().GRPCAddr()); len(got) < 2 {
		t.Errorf("packages with goroutines, with RPC and gRPC = %v, want at least 2", got)
	}
}
