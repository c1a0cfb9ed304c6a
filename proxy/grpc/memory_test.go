package grpc_test

import (
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"

	memory "github.com/tipcache/tipcache/upstream/account"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/upstream/expect"
)

// reserving sets the memory to 1 MiB. Streams can reserve 448 KiB of it: 12 streams of 36 KiB, because a call needs 64 KiB
// more until its handler begins.
func reserving(s *setup) {
	a := memory.New(512<<10, nil)
	s.cache.MemoryBytes, s.cache.Account, s.listener.Memory = 1<<20, a, a
}

func TestClientWithTheMostOpenCallsIsClosedFirst(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	d := open(t, newRecordedNode(t), true, reserving, func(s *setup) { s.listener.Metrics = registry })
	modest, greedy := d.dialRaw(t, "127.0.0.2"), d.dialRaw(t, "127.0.0.3")
	calls := []uint32{modest.startCall(), modest.startCall(), modest.startCall()}
	expect.EventuallyEqual(t, "two calls are reserved", d.cache.Account().Used, 2*36<<10)
	greedy.mayClose = true
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for {
			if _, err := greedy.ReadFrame(); err != nil {
				return
			}
		}
	}()
	expect.Eventually(t, "the client with the most open calls is closed", func() bool {
		greedy.startCall()
		select {
		case <-closed:
			return true
		default:
			return false
		}
	})
	expect.Eventually(t, "one closed connection is counted", func() bool {
		return expect.Metric(t, registry, "tipcache_http_connections_closed_total", "memory") == 1
	})
	for _, call := range calls {
		expect.NoError(t, modest.WriteData(call, true, make([]byte, 5)))
	}
	modest.readUntil("the responses of the other client", func(f http2.Frame) bool {
		if h, ok := f.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
			calls = slices.DeleteFunc(calls, func(id uint32) bool { return id == h.StreamID })
		}
		return len(calls) == 0
	})
	expect.EventuallyEqual(t, "all calls are released", d.cache.Account().Used, 0)
}

func TestUnreadResponsesKeepTheirStreamsReserved(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true, reserving)
	r := d.dialRaw(t, "127.0.0.1")
	expect.NoError(t, r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	for range 5 {
		expect.NoError(t, r.WriteData(r.startCall(), true, make([]byte, 5)))
	}
	expect.Eventually(t, "all calls have ended", func() bool {
		return expect.Metric(t, d.metrics, "tipcache_proxy_requests_total", "grpc state") == 5
	})
	expect.EventuallyEqual(t, "four of five streams are reserved", d.cache.Account().Used, 4*36<<10)
	expect.NoError(t, r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16}))
	go func() { _, _ = io.Copy(io.Discard, r.Conn) }() // until the test ends
	expect.EventuallyEqual(t, "the streams are released once the client has read", d.cache.Account().Used, 0)
}

func TestConnectionWithUnreadResponseIsNotIdle(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	d := open(t, newRecordedNode(t), true, func(s *setup) { s.listener.Most, s.listener.Metrics = 1, registry })
	r := d.dialRaw(t, "127.0.0.1")
	expect.NoError(t, r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	expect.NoError(t, r.WriteData(r.startCall(), true, make([]byte, 5)))
	expect.Eventually(t, "the call has ended", func() bool {
		return expect.Metric(t, d.metrics, "tipcache_proxy_requests_total", "grpc state") == 1
	})
	invokeAt14(t, d.dial(t)).expectMessageAt(t, "14")
	for cause, want := range map[string]float64{"idle": 0, "stalled": 1} {
		expect.Equal(t, expect.Metric(t, registry, "tipcache_http_connections_closed_total", cause), want, "%s connections closed for a new one", cause)
	}
}

func TestCallsThatNeverBeginAreReleased(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true, reserving)
	r := d.dialRaw(t, "127.0.0.1")
	r.encoding = "unknown" // the library refuses it before the handler
	for range 3 {
		r.startCall()
	}
	ended := 0
	r.readUntil("the refusals", func(f http2.Frame) bool {
		if h, ok := f.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
			ended++
		}
		return ended == 3
	})
	r.encoding = "identity"
	expect.NoError(t, r.WriteData(r.startCall(), true, make([]byte, 5)))
	expect.EventuallyEqual(t, "the refused calls are released", d.cache.Account().Used, 0)
}

func TestCallsWithoutMemoryAreRefused(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true, reserving)
	account := d.cache.Account()
	if !account.Reserve(memory.Requests, account.Limit()/8*7) {
		t.Fatal("Reserve = false, want true")
	}
	r := d.dialRaw(t, "127.0.0.1")
	first, second := r.startCall(), r.startCall()
	r.readStatus(second, "8")
	expect.NoError(t, r.WriteData(first, true, make([]byte, 5)))
	r.readUntil("the response to the first call", func(f http2.Frame) bool { return f.Header().StreamID == first })
}

// A connRecorder is a listener that records its last connection, without keeping it in memory.
type connRecorder struct {
	net.Listener
	last atomic.Pointer[weak.Pointer[conn.Conn]]
}

func (l *connRecorder) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		last := weak.Make(conn.Accepted(c))
		l.last.Store(&last)
	}
	return c, err
}

func TestCallsWithoutMemoryReleaseTheirTimeouts(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true, reserving)
	account := d.cache.Account()
	if !account.Reserve(memory.Requests, account.Limit()/8*7) {
		t.Fatal("Reserve = false, want true")
	}
	l := &connRecorder{Listener: expect.Value(conn.Listen(t.Context(), "127.0.0.1:0", conn.Options{Settings: conn.Settings{Most: 100}, Memory: account}))(t)}
	server := d.handler.NewServer(time.Minute, time.Minute)
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); served.Wait() })
	d.addr = l.Addr().String()
	r := d.dialRaw(t, "127.0.0.1")
	r.startCall()
	r.timeout = "99999999H"
	for range 3 {
		r.readStatus(r.startCall(), "8")
	}
	expect.NoError(t, r.Close())
	expect.Eventually(t, "nothing refers to the closed connection", func() bool {
		runtime.GC()
		return l.last.Load().Value() == nil
	})
}
