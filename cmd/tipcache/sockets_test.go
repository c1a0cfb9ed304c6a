package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A socketClient is a connection to /websocket.
type socketClient struct {
	t    *testing.T
	conn *websocket.Conn
}

func dialSocket(t *testing.T, r *running, origin string) (socketClient, error) {
	t.Helper()
	header := http.Header{}
	if origin != "" {
		header.Set("Origin", origin)
	}
	conn, _, err := websocket.Dial(t.Context(), "http://"+r.RPCAddr()+"/websocket", &websocket.DialOptions{HTTPHeader: header})
	if err == nil {
		conn.SetReadLimit(1 << 24)
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return socketClient{t, conn}, err
}

func (c socketClient) say(format string, args ...any) {
	c.t.Helper()
	expect.NoError(c.t, c.conn.Write(c.t.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...)))
}

func (c socketClient) hear() string {
	c.t.Helper()
	_, message, err := c.conn.Read(c.t.Context())
	expect.NoError(c.t, err)
	return string(message)
}

func withRPC(c *config.Config) { c.RPC.Listen = "127.0.0.1:0" }

// The node takes longer for an answer than clients are kept waiting that could be given an older one.
func TestReadAfterBlockEventIsNotOlderThanBlock(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	r := startRunning(t, d, withRPC)
	c := expect.Value(dialSocket(t, r, ""))(t)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"tm.event='NewBlockHeader'"}}`)
	c.hear()
	before := r.get(r.base + sdkPool).height()
	expect.NoError(t, d.SetFaults(devnet.Faults{Node: devnet.Fault{Latency: 700 * time.Millisecond}}))
	d.Advance(1)
	if event, want := c.hear(), fmt.Sprintf(`"height":"%d"`, d.Height()); !strings.Contains(event, want) {
		t.Fatalf("event = %s, want %s", event, want)
	}
	if got := r.get(r.base + sdkPool); got.height() != fmt.Sprint(d.Height()) {
		t.Errorf("event of block %d after %s, read %d at %s, %s", d.Height(), before, got.status, got.height(), got.header.Get("Cache-Status"))
	}
}

func TestStoppingServiceClosesWebSockets(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	ctx, sigterm := context.WithCancel(context.Background())
	defer sigterm()
	r, ended := startStoppable(ctx, t, d, func(c *config.Config) {
		withRPC(c)
		c.HTTP.CORSOrigins = []string{"https://app.example"}
		c.HTTP.Request, c.HTTP.Drain = time.Minute, time.Minute
	})
	if _, err := dialSocket(t, r, "https://evil.example"); err == nil {
		t.Error("WebSocket accepted from a page of another origin")
	}
	c := expect.Value(dialSocket(t, r, "https://app.example"))(t)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"tm.event EXISTS"}}`)
	c.say(`{"jsonrpc":"2.0","id":2,"method":"header","params":{"height":"5"}}`)
	for _, want := range []string{`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":2,"result":{"header":{`} {
		if got := c.hear(); !strings.HasPrefix(got, want) {
			t.Errorf("heard %s, want %s", got, want)
		}
	}
	slow := r.dial() // a request of another interface, which is not all there
	fmt.Fprint(slow, "POST /cosmos.bank.v1beta1.Query/Params HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc-web\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if line, err := bufio.NewReader(slow).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") { // it is being read
		t.Fatalf("%q, %v", line, err)
	}
	sigterm()
	if _, _, err := c.conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("closed with %v", err)
	}
	fmt.Fprint(slow, "\x00\x00\x00\x00\x00")
	expect.NoError(t, <-ended)
}
