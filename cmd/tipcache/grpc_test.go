package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// The limit of concurrent requests for lists to a node applies to all APIs together.
func TestListCostsSameOverAllAPIs(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	s := startRunning(t, d, func(c *config.Config) { c.RPC.Listen, c.GRPC.Listen = "127.0.0.1:0", "127.0.0.1:0" })
	const validators = "/cosmos.staking.v1beta1.Query/Validators"
	byRPC := func(data string) {
		s.do(http.MethodPost, "http://"+s.RPCAddr(), `{"id":1,"method":"abci_query","params":{"path":"`+validators+`","data":"`+data+`"}}`)
	}
	for _, c := range []struct {
		request, cost string
		send          func()
	}{
		{"list over REST", "page", func() { s.get(s.base + "/cosmos/staking/v1beta1/validators") }},
		{"list over RPC", "page", func() { byRPC("") }},
		{"list over gRPC", "page", func() { s.invoke(t, validators, "990") }},
		{"list over gRPC-Web", "page", func() {
			s.do(http.MethodPost, s.base+validators, "\x00\x00\x00\x00\x00", "Content-Type", "application/grpc-web+proto", "X-Cosmos-Block-Height", "991")
		}},
		{"long list over REST", "scan", func() { s.get(s.base + "/cosmos/staking/v1beta1/validators?pagination.limit=1001") }},
		{"long list over RPC", "scan", func() { byRPC("120318E907") }},
	} {
		before := s.metricSum("tipcache_node_request_duration_seconds_count", `cost="`+c.cost+`"`)
		c.send()
		got := s.metricSum("tipcache_node_request_duration_seconds_count", `cost="`+c.cost+`"`) - before
		expect.Equal(t, got, 1, "node requests of cost %s for a %s", c.cost, c.request)
	}
}

// invoke calls a method without a message, at a height.
func (r *instance) invoke(t *testing.T, method, at string) (reply []byte, height string) {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-cosmos-block-height", at)
	var header metadata.MD
	reply = r.call(ctx, method, nil, grpc.Header(&header))
	return reply, strings.Join(header.Get("x-cosmos-block-height"), ",")
}

// call calls a method.
func (r *instance) call(ctx context.Context, method string, message []byte, more ...grpc.CallOption) (reply []byte) {
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
		s := serveFile(t, d, fmt.Sprintf("%schain: {nodes: [%q], comet: [%q], %s}\ngrpc: {listen: \"127.0.0.1:0\"}\n", listenAnywhere, d.NodeURL(), d.CometURL(), grpc))
		if got := strings.Contains(s.log.String(), "grpc.listen: without chain.grpc"); got != want {
			t.Errorf("warning about chain.grpc with %q = %t, want %t: %s", grpc, got, want, s.log.String())
		}
	}
}
