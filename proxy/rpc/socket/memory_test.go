package socket_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/rpc/socket"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

// reservingMethods reserve memory for their answers.
type reservingMethods struct {
	methods
	stack *web.Stack
}

func (m reservingMethods) Call(r *http.Request, method string, params json.RawMessage) (a socket.Answer) {
	a.Member = m.methods(r, method, params)
	var err error
	if a.Release, err = m.stack.HoldResponse(r, len(a.Member)); err != nil {
		a.Member = []byte(`"error":{"code":-32000,"message":"no memory"}`)
	}
	return a
}

func TestMessagesAndAnswersReserveMemory(t *testing.T) {
	memory := account.New(64<<10, nil)
	c := expect.Value(cache.New(cache.Options{Account: memory}))(t)
	t.Cleanup(func() { _ = c.Close() })
	stack := web.New(web.Options{}, c)
	var called atomic.Int64
	hold, begun := make(chan struct{}), make(chan struct{}, 2)
	long := []byte(`"result":"` + strings.Repeat("x", 40<<10) + `"`)
	_, url := serve(t, socket.Options{Stack: stack, Methods: reservingMethods{func(_ *http.Request, method string, _ json.RawMessage) []byte {
		called.Add(1)
		begun <- struct{}{}
		if method == "wait" {
			<-hold
			return []byte(`"result":1`)
		}
		return long
	}, stack}})
	conn := dial(t, url)
	send(t, conn, `{"jsonrpc":"2.0","id":1,"method":"wait"}`)
	send(t, conn, `{"jsonrpc":"2.0","id":2,"method":"long"}`)
	<-begun
	<-begun
	expect.Eventually(t, "reservation of the answer that was read ahead", func() bool { return memory.Used() >= 40<<10 })
	other := dial(t, url)
	send(t, other, `{"jsonrpc":"2.0","id":3,"method":"long"}`)
	<-begun
	expect.Equal(t, receive(t, other), `{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"no memory"}}`, "answer without memory")
	expect.NoError(t, other.Write(t.Context(), websocket.MessageText, make([]byte, 30<<10)))
	if _, _, err := other.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("connection ended with %v after a message without memory, want status %d", err, websocket.StatusTryAgainLater)
	}
	close(hold)
	for _, want := range []string{`{"jsonrpc":"2.0","id":1,"result":1}`, `{"jsonrpc":"2.0","id":2,` + string(long) + `}`} {
		expect.Equal(t, receive(t, conn), want, "answer")
	}
	_ = conn.CloseNow()
	expect.Eventually(t, "release of all memory", func() bool { return memory.Used() == 0 })
}

func TestCallReadAheadWithoutMemoryIsReadAgain(t *testing.T) {
	metrics := prometheus.NewRegistry()
	memory := account.New(64<<10, metrics)
	c := expect.Value(cache.New(cache.Options{Account: memory}))(t)
	t.Cleanup(func() { _ = c.Close() })
	stack, hold := web.New(web.Options{}, c), make(chan struct{})
	long := `"result":"` + strings.Repeat("x", 40<<10) + `"`
	_, url := serve(t, socket.Options{Stack: stack, Methods: reservingMethods{func(_ *http.Request, method string, _ json.RawMessage) []byte {
		if method == "wait" {
			<-hold
			return []byte(`"result":1`)
		}
		return []byte(long)
	}, stack}})
	const others = 24 << 10
	if !memory.Reserve(account.Unread, others) {
		t.Fatal("Reserve = false, want true")
	}
	conn := dial(t, url)
	send(t, conn, `{"jsonrpc":"2.0","id":1,"method":"wait"}`)
	send(t, conn, `{"jsonrpc":"2.0","id":2,"method":"long"}`)
	expect.Eventually(t, "refusal of memory for the answer that was read ahead", func() bool {
		return expect.Metric(t, metrics, "tipcache_memory_refused_total", "unread") > 0
	})
	memory.Release(account.Unread, others)
	close(hold)
	receive(t, conn)
	expect.Equal(t, receive(t, conn), `{"jsonrpc":"2.0","id":2,`+long+`}`, "answer after memory was released")
}
