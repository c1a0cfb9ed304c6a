package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
	"github.com/tipcache/tipcache/upstream/node"
)

// A list weighs as much on the node by each interface: one judgement says how many of them it is asked
// for at a time.
func TestListCostsSameOverAllAPIs(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	s := startRunning(t, d, func(c *config.Config) { c.RPC.Listen, c.GRPC.Listen = "127.0.0.1:0", "127.0.0.1:0" })
	const validators = "/cosmos.staking.v1beta1.Query/Validators"
	byRPC := func(data string) {
		s.do(http.MethodPost, "http://"+s.RPCAddr(), `{"id":1,"method":"abci_query","params":{"path":"`+validators+`","data":"`+data+`"}}`)
	}
	for _, c := range []struct {
		by, cost string
		ask      func()
	}{
		{"REST", "page", func() { s.get(s.base + "/cosmos/staking/v1beta1/validators") }},
		{"the RPC", "page", func() { byRPC("") }},
		{"gRPC", "page", func() { s.invoke(t, validators, "990") }},
		{"gRPC-Web", "page", func() {
			s.do(http.MethodPost, s.base+validators, "\x00\x00\x00\x00\x00", "Content-Type", "application/grpc-web+proto", "X-Cosmos-Block-Height", "991")
		}},
		{"REST, a long one", "scan", func() { s.get(s.base + "/cosmos/staking/v1beta1/validators?pagination.limit=1001") }},
		{"the RPC, a long one", "scan", func() { byRPC("120318E907") }},
	} {
		before := s.counted("tipcache_node_request_duration_seconds_count", `cost="`+c.cost+`"`)
		c.ask()
		if got := s.counted("tipcache_node_request_duration_seconds_count", `cost="`+c.cost+`"`) - before; got != 1 {
			t.Errorf("a list by %s counts as %v of the cost %s, want 1", c.by, got, c.cost)
		}
	}
}

// invoke calls a method without a message, at a height.
func (r *running) invoke(t *testing.T, method, at string) (reply []byte, height string) {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-cosmos-block-height", at)
	var header metadata.MD
	reply = r.call(ctx, method, nil, grpc.Header(&header))
	return reply, strings.Join(header.Get("x-cosmos-block-height"), ",")
}

// call calls a method.
func (r *running) call(ctx context.Context, method string, message []byte, more ...grpc.CallOption) (reply []byte) {
	t := r.t
	t.Helper()
	c := expect.Value(grpc.NewClient(r.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.Invoke(ctx, method, &message, &reply, append(more, grpc.ForceCodecV2(node.Bytes{}))...); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return reply
}

func TestServingGRPCWithoutTheNodesGRPCIsLogged(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos})
	for grpc, want := range map[string]bool{"": true, "grpc: [\"" + d.Node().GRPCAddr() + "\"]": false} {
		file := filepath.Join(t.TempDir(), "tipcache.yaml")
		settings := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nadmin_token: none\nredis: {url: none}\nchain: {nodes: [%q], comet: [%q], %s}\ngrpc: {listen: \"127.0.0.1:0\"}\n", d.NodeURL(), d.CometURL(), grpc)
		expect.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
		var log logtest.Log
		serveFile(t, d, file, &log)
		if got := strings.Contains(log.String(), "grpc.listen: without chain.grpc"); got != want {
			t.Errorf("warning about chain.grpc with %q = %t, want %t: %s", grpc, got, want, log.String())
		}
	}
}
