package main

import (
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

func dialSocket(t *testing.T, r *instance, origin string) (socketClient, error) {
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
	slow := beginPost(t, r.Addr(), "/cosmos.bank.v1beta1.Query/Params", "Content-Type: application/grpc-web", 5) // must not delay the WebSocket
	r.stop()
	if _, _, err := c.conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("WebSocket closed with %v, want status %d", err, websocket.StatusServiceRestart)
	}
	fmt.Fprint(slow, "\x00\x00\x00\x00\x00")
	expect.NoError(t, r.waitForEnd())
}
