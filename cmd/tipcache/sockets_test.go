package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// A socketClient is a connection to /websocket.
type socketClient struct {
	t    *testing.T
	conn *websocket.Conn
}

func dialSocket(t *testing.T, r *instance, origin string) (socketClient, error) {
	t.Helper()
	header := http.Header{}
	if origin != "" {
		header.Set("Origin", origin)
	}
	conn, _, err := websocket.Dial(t.Context(), "http://"+r.Addresses.RPC+"/websocket", &websocket.DialOptions{HTTPHeader: header})
	if err == nil {
		conn.SetReadLimit(1 << 24)
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return socketClient{t, conn}, err
}

func (c socketClient) send(format string, args ...any) {
	c.t.Helper()
	expect.NoError(c.t, c.conn.Write(c.t.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...)))
}

func (c socketClient) receive() string {
	c.t.Helper()
	_, message, err := c.conn.Read(c.t.Context())
	expect.NoError(c.t, err)
	return string(message)
}

func withRPC(c *config.Config) { c.RPC.Listen = "127.0.0.1:0" }

// The node responds later than clients wait for a fresh entry if there is a stale one.
func TestReadAfterBlockEventIsNotOlderThanBlock(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	r := startRunning(t, d, withRPC)
	c := expect.Value(dialSocket(t, r, ""))(t)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"tm.event='NewBlockHeader'"}}`)
	c.receive()
	before := r.get(r.base + sdkPool).height()
	expect.NoError(t, d.SetFaults(devnet.Faults{Node: devnet.Fault{Latency: 700 * time.Millisecond}}))
	d.Advance(1)
	if event, want := c.receive(), fmt.Sprintf(`"height":"%d"`, d.Height()); !strings.Contains(event, want) {
		t.Fatalf("event = %s, want %s", event, want)
	}
	if got := r.get(r.base + sdkPool); got.height() != fmt.Sprint(d.Height()) {
		t.Errorf("read after the event of block %d = %d at block %s (%s), want block %d; before the event: %s", d.Height(), got.status, got.height(), got.header.Get("Cache-Status"), d.Height(), before)
	}
}

func TestStoppingServiceClosesWebSockets(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	r := startRunning(t, d, func(c *config.Config) {
		withRPC(c)
		c.HTTP.CORSOrigins = []string{"https://app.example"}
	})
	if _, err := dialSocket(t, r, "https://evil.example"); err == nil {
		t.Error("WebSocket accepted from a page of another origin")
	}
	c := expect.Value(dialSocket(t, r, "https://app.example"))(t)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"tm.event EXISTS"}}`)
	c.send(`{"jsonrpc":"2.0","id":2,"method":"header","params":{"height":"5"}}`)
	for _, want := range []string{`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":2,"result":{"header":{`} {
		if got := c.receive(); !strings.HasPrefix(got, want) {
			t.Errorf("message = %s, want it to begin with %s", got, want)
		}
	}
	slow := beginPost(t, r.Addresses.REST, "/cosmos.bank.v1beta1.Query/Params", "Content-Type: application/grpc-web", 5) // must not delay the WebSocket
	r.stop()
	if _, _, err := c.conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("WebSocket closed with %v, want status %d", err, websocket.StatusServiceRestart)
	}
	fmt.Fprint(slow, "\x00\x00\x00\x00\x00")
	expect.NoError(t, r.waitForEnd())
}

// The limit of concurrent requests for lists to a node applies to all APIs together.
func TestListCostsSameOverAllAPIs(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	s := startRunning(t, d, func(c *config.Config) { c.RPC.Listen, c.GRPC.Listen = "127.0.0.1:0", "127.0.0.1:0" })
	const validators = "/cosmos.staking.v1beta1.Query/Validators"
	byRPC := func(data string) {
		s.do(http.MethodPost, "http://"+s.Addresses.RPC, `{"id":1,"method":"abci_query","params":{"path":"`+validators+`","data":"`+data+`"}}`)
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
	c := expect.Value(grpc.NewClient(r.Addresses.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
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
