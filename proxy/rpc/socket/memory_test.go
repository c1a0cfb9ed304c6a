package socket_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/limits"
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
	expect.EventuallyAtLeast(t, "reservation of the answer that was read ahead", memory.Used, 40<<10)
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
	expect.EventuallyEqual(t, "release of all memory", memory.Used, 0)
}

func TestMessagesReserveMemoryForTheKeyOfTheSocket(t *testing.T) {
	stack := web.New(web.Options{Keys: []limits.Key{
		{Name: "one", SHA256: sha256.Sum256([]byte("first"))},
		{Name: "two", SHA256: sha256.Sum256([]byte("second"))},
	}}, nil)
	hold, begun := make(chan struct{}), make(chan struct{}, 3)
	_, url := serve(t, socket.Options{Stack: stack, Keyed: true, Message: 12 << 20, Methods: methods(func(*http.Request, string, json.RawMessage) []byte {
		begun <- struct{}{}
		<-hold
		return []byte(`"result":1`)
	})})
	defer close(hold)
	sendLong := func(key string) *websocket.Conn {
		conn, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: http.Header{limits.KeyHeader: {key}}})
		expect.NoError(t, err)
		t.Cleanup(func() { _ = conn.CloseNow() })
		send(t, conn, `{"jsonrpc":"2.0","id":1,"method":"wait","params":["`+strings.Repeat("x", 10<<20)+`"]}`)
		return conn
	}
	sendLong("first")
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, _, err := sendLong("first").Read(ctx); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("connection ended with %v after a message above the share of its key, want status %d", err, websocket.StatusTryAgainLater)
	}
	sendLong("second")
	<-begun
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

// pipes listens for connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p <- ours
	return theirs, nil
}

func (p pipes) Close() error { close(p); return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestOnlySmallCallsMayWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := expect.Value(cache.New(cache.Options{}))(t)
		defer c.Close()
		hold, listener := make(chan struct{}), make(pipes)
		d := socket.New(socket.Options{Stack: web.New(web.Options{}, c), Ping: time.Hour, Feed: newFeed(still{}, nil), Methods: methods(func(r *http.Request, _ string, _ json.RawMessage) []byte {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
			return []byte(`"result":1`)
		})})
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(d, w, r) })}
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		defer d.Drain(t.Context())
		transport := &http.Transport{DialContext: listener.dial}
		dial := func() *websocket.Conn {
			conn, _, err := websocket.Dial(t.Context(), "http://node", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
			expect.NoError(t, err)
			return conn
		}
		small, large := dial(), dial()
		defer small.CloseNow()
		defer large.CloseNow()
		for _, conn := range []*websocket.Conn{small, large} {
			send(t, conn, `{"id":1,"method":"slow","params":{}}`)
		}
		send(t, small, `{"id":2,"method":"next","params":{}}`)
		send(t, large, strings.Repeat("x", 100<<10))
		synctest.Wait()
		if held := c.Account().Used(); held < 100<<10 {
			t.Errorf("Used = %d while a message of 100 KiB waits, want it reserved", held)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		for err := error(nil); err == nil; { // the end of the call may be answered
			_, _, err = large.Read(ctx)
		}
		expect.Equal(t, time.Since(began), 20*time.Second, "time until the end of the connection with the large message")
		close(hold)
		for id := 1; id <= 2; id++ {
			expect.Equal(t, receive(t, small), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":1}`, id), "answer %d to small calls", id)
		}
		synctest.Wait()
		expect.Equal(t, c.Account().Used(), 0, "bytes reserved after the end of the connection")
	})
}
