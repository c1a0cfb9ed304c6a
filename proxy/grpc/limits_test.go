package grpc_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	google "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// atBlock14 asks for what was recorded at block 14.
func atBlock14(t testing.TB, c *google.ClientConn, pairs ...string) reply {
	t.Helper()
	return ask(t.Context(), c, params, nil, append(pairs, "x-cosmos-block-height", "14")...)
}

// inFlight makes a call that the node answers once it is let go, and returns once the node is asked.
func (n *recordedNode) inFlight(t testing.TB, c *google.ClientConn) (ended <-chan error, letGo func()) {
	t.Helper()
	letGo = n.hold(params)
	t.Cleanup(letGo)
	done := make(chan error, 1)
	before := n.times("gRPC " + params + "@14")
	go func() { done <- atBlock14(t, c).err }()
	expect.Eventually(t, "the node is asked", func() bool { return n.times("gRPC "+params+"@14") > before })
	return done, letGo
}

func TestListenerServesTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(http.NotFoundHandler())
	web.Close() // its certificate is all that is wanted
	d := open(t, newRecordedNode(t), true, func(s *setup) {
		s.listener.TLS = &tls.Config{Certificates: web.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	})
	c := d.dial(t, google.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}))) //nolint:gosec // of a test
	if r := atBlock14(t, c); r.err != nil || r.height() != "14" {
		t.Errorf("%v, at block %q", r.err, r.height())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if r := ask(ctx, d.dial(t), params, nil); r.err == nil {
		t.Error("call without TLS: error = nil, want one")
	}
}

func TestDrainEndsCallsInFlightAndRejectsNewOnes(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	d := open(t, n, true)
	other, _ := d.serve(t, listener.Options{})
	both := manual.NewBuilderWithScheme("both")
	both.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: d.addr}, {Addr: other}}})
	c := dial(t, "both:///", google.WithResolvers(both))
	ended, letGo := n.inFlight(t, c)
	drained := make(chan struct{})
	go func() { d.server.GracefulStop(); close(drained) }()
	path, message := recordedMessage(t, "grpc_balance")
	expect.Eventually(t, "a call goes elsewhere", func() bool {
		r := ask(t.Context(), c, path, unhex(t, message), "x-cosmos-block-height", "14")
		if r.err != nil {
			t.Fatal(r.err)
		}
		return r.from == other
	})
	select {
	case err := <-ended:
		t.Errorf("the call in flight has ended: %v", err)
	default:
	}
	letGo()
	expect.NoError(t, <-ended)
	<-drained
}

func TestStreamsEndInADrain(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	d := open(t, n, true)
	path, message := recordedMessage(t, "grpc_reflection_list")
	t.Cleanup(n.hold(path))
	s := expect.Value(d.dial(t).NewStream(t.Context(), &google.StreamDesc{ServerStreams: true, ClientStreams: true}, path))(t)
	sent := unhex(t, message)
	expect.NoError(t, s.SendMsg(&sent))
	var got []byte
	expect.NoError(t, s.RecvMsg(&got))
	d.handler.Drain()
	if err := s.RecvMsg(&got); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

func TestSlotIsReclaimedFromIdleClientOnly(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	d := open(t, n, true, func(s *setup) { s.listener.Most = 2 })
	idle := d.dial(t)
	if r := atBlock14(t, idle); r.err != nil {
		t.Fatal(r.err)
	}
	busy := d.dial(t)
	path, message := recordedMessage(t, "grpc_balance")
	letGo := n.hold(path)
	t.Cleanup(letGo)
	ended := make(chan error, 1)
	go func() { ended <- ask(t.Context(), busy, path, unhex(t, message), "x-cosmos-block-height", "14").err }()
	expect.Eventually(t, "the node is asked", func() bool { return n.times("gRPC "+path) > 0 })
	if r := atBlock14(t, d.dial(t)); r.err != nil {
		t.Error(r.err)
	}
	expect.Eventually(t, "the idle connection is closed", func() bool { return idle.GetState() != connectivity.Ready })
	letGo()
	if err := <-ended; err != nil || busy.GetState() != connectivity.Ready {
		t.Errorf("call in flight = %v on a connection in state %v, want no error and READY", err, busy.GetState())
	}
}

func TestCallsNeedAKeyAndAreCountedByIt(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true, func(s *setup) {
		s.blocks.Auth = true
		s.web.Keys = []limits.Key{{Name: "one", SHA256: sha256.Sum256([]byte("secret")), Rate: limits.Rate{Requests: 1, Per: time.Hour, Burst: 2}}}
	})
	c := d.dial(t)
	for _, call := range []struct {
		key  string
		want codes.Code
	}{{"", codes.Unauthenticated}, {"guess", codes.Unauthenticated}, {"secret", codes.OK}, {"secret", codes.OK}, {"secret", codes.ResourceExhausted}} {
		var pairs []string
		if call.key != "" {
			pairs = []string{"x-api-key", call.key}
		}
		r := atBlock14(t, c, pairs...)
		if status.Code(r.err) != call.want {
			t.Errorf("with the key %q: %v", call.key, r.err)
		}
		if told := r.trailer.Get("grpc-retry-pushback-ms"); (call.want == codes.ResourceExhausted) != (len(told) == 1) {
			t.Errorf("it is to be tried again after %q ms: %v", told, r.err)
		}
		if told := r.header.Get("ratelimit"); (call.want == codes.OK) != (len(told) == 1) {
			t.Errorf("the limits are told as %q: %v", told, r.err)
		}
	}
}

func TestCallIsLoggedAndCounted(t *testing.T) {
	t.Parallel()
	var log logtest.Log
	n := newRecordedNode(t)
	d := open(t, n, true, func(s *setup) {
		s.web.AccessLog, s.web.Logger = &log, slog.New(slog.NewTextHandler(io.Discard, nil))
	})
	c := d.dial(t, google.WithUserAgent("a test"))
	unknown, message := recordedMessage(t, "grpc_account_unknown")
	atBlock14(t, c, "x-request-id", "first")
	atBlock14(t, c)
	ask(t.Context(), c, unknown, unhex(t, message), "x-cosmos-block-height", "14")
	left, message := recordedMessage(t, "grpc_balance")
	t.Cleanup(n.hold(left))
	ctx, leave := context.WithCancel(t.Context())
	go ask(ctx, c, left, unhex(t, message), "x-cosmos-block-height", "14")
	expect.Eventually(t, "the node is asked", func() bool { return n.times("gRPC "+left) == 1 })
	leave()
	expect.Eventually(t, "four calls are logged", func() bool { return log.Count("\n") == 4 })
	var got []string
	for line := range strings.Lines(log.String()) {
		var l struct {
			Level, Method, Route, Path, Outcome, Client, Error string
			Status, Bytes, Height                              int
			RequestID                                          string `json:"request_id"`
			Agent                                              string `json:"user_agent"`
		}
		expect.NoError(t, json.Unmarshal([]byte(line), &l))
		if !strings.HasPrefix(l.Agent, "a test") || l.RequestID == "" || l.Client != "127.0.0.1" || l.Method != http.MethodPost {
			t.Errorf("a line is %s", line)
		}
		got = append(got, fmt.Sprint(l.Level, " ", l.Route, " ", l.Path, " ", l.Status, " ", l.Outcome, " at ", l.Height))
	}
	want := []string{
		"INFO grpc state " + params + " 200 miss at 14",
		"INFO grpc state " + params + " 200 hit at 14",
		"INFO grpc state " + unknown + " 200 miss at 14",
		"INFO grpc state " + left + " 499 abandoned at 0",
	}
	expect.NoDiff(t, got, want, "log")
	if !strings.Contains(log.String(), `"request_id":"first"`) {
		t.Error("log lacks the client's request id")
	}
	expect.Equal(t, expect.Metric(t, d.metrics, "tipcache_proxy_requests_total", "hit"), 1, "counted hits")
}

// A raw client of HTTP/2 writes frames that no library would.
type raw struct {
	testing.TB
	net.Conn
	*http2.Framer
	next     uint32 // stream
	encoding string // of messages

	mayClose bool // the server may close the connection at any time
}

func (d *servers) raw(t testing.TB, from string) *raw {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	c := expect.Value(dialer.DialContext(t.Context(), "tcp", d.addr))(t)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	r := &raw{TB: t, Conn: c, Framer: http2.NewFramer(c, bufio.NewReader(c)), next: 1, encoding: "identity"}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil || r.WriteSettings() != nil {
		t.Fatal(err)
	}
	return r
}

// begin begins a call about block 14, or another one, without its message.
func (r *raw) begin(at ...string) (stream uint32) {
	r.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", params}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}, {"x-cosmos-block-height", append(at, "14")[0]}, {"grpc-encoding", r.encoding},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}) // a table that no decoder has to follow
	}
	stream = r.next
	r.next += 2
	if err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil && !r.mayClose {
		r.Fatal(err)
	}
	return stream
}

// until reads frames until one is as it is wanted.
func (r *raw) until(what string, is func(http2.Frame) bool) {
	r.Helper()
	for {
		f, err := r.ReadFrame()
		if err != nil {
			r.Fatalf("%s does not come: %v", what, err)
		}
		if is(f) {
			return
		}
	}
}

func TestConnectionHasABoundedNumberOfStreams(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true)
	r := d.raw(t, "127.0.0.1")
	most := uint32(0)
	r.until("the settings", func(f http2.Frame) bool {
		s, ok := f.(*http2.SettingsFrame)
		if ok && !s.IsAck() {
			most, _ = s.Value(http2.SettingMaxConcurrentStreams)
		}
		return most > 0
	})
	for range most {
		r.begin()
	}
	last := r.begin()
	r.until("a refusal", func(f http2.Frame) bool {
		reset, ok := f.(*http2.RSTStreamFrame)
		return ok && reset.StreamID == last && reset.ErrCode == http2.ErrCodeRefusedStream
	})
	if r := atBlock14(t, d.dial(t)); r.err != nil {
		t.Error(r.err)
	}
}

func TestClientThatFloodsPingsIsDisconnected(t *testing.T) {
	t.Parallel()
	r := open(t, newRecordedNode(t), true).raw(t, "127.0.0.1")
	for range 10 {
		if err := r.WritePing(false, [8]byte{}); err != nil {
			break // it is gone
		}
	}
	r.until("the end", func(f http2.Frame) bool {
		end, ok := f.(*http2.GoAwayFrame)
		return ok && end.ErrCode == http2.ErrCodeEnhanceYourCalm
	})
}

func TestCallsResetAtOnceCountAgainstTheirClientOnly(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true, func(s *setup) {
		s.web.Limits.Address = limits.Rate{Requests: 1, Per: time.Hour, Burst: 300}
	})
	r := d.raw(t, "127.0.0.2")
	for range 2000 {
		expect.NoError(t, r.WriteRSTStream(r.begin(), http2.ErrCodeCancel))
	}
	expect.Eventually(t, "the client is refused", func() bool { return expect.Metric(t, d.metrics, "tipcache_proxy_limits_total", "refused") > 0 })
	if r := atBlock14(t, d.dial(t)); r.err != nil {
		t.Errorf("another client: %v", r.err)
	}
	expect.Eventually(t, "all calls have ended", func() bool {
		return expect.Metric(t, d.metrics, "tipcache_proxy_requests_total", "grpc state") > 2000
	})
}

func TestCallWithoutMessageDoesNotEndOtherCalls(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true, func(s *setup) { s.web.RequestTimeout = 50 * time.Millisecond })
	r := d.raw(t, "127.0.0.1")
	r.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	first := r.begin()
	r.until("its status", func(f http2.Frame) bool {
		h, ok := f.(*http2.MetaHeadersFrame)
		return ok && h.StreamID == first && h.StreamEnded() && slices.Contains(h.Fields, hpack.HeaderField{Name: "grpc-status", Value: "4"})
	})
	next := r.begin()
	expect.NoError(t, r.WriteData(next, true, make([]byte, 5)))
	r.until("the next answer", func(f http2.Frame) bool { return f.Header().StreamID == next })
}

func TestClientThatDoesNotReadIsDisconnectedIfMemoryIsShort(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"identity", "gzip"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			sendAwayUnread(t, encoding)
		})
	}
}

// sendAwayUnread has a client whose messages are in an encoding read nothing.
func sendAwayUnread(t *testing.T, encoding string) {
	n := newRecordedNode(t)
	const calls, size = 8, 1 << 20
	for at := range calls {
		height := strconv.Itoa(at + 1)
		n.byGRPC[meaning(params, "", []string{height})] = exchange{
			Messages: []string{hex.EncodeToString(make([]byte, size))}, Headers: map[string]string{"x-cosmos-block-height": height}, Trailers: map[string]string{"grpc-status": "0"},
		}
	}
	memory := account.New(3*size, nil)
	d := open(t, n, true, func(s *setup) { s.listener.Memory = memory })
	r := d.raw(t, "127.0.0.1") // it never grants more than the window that all begin with
	r.encoding = encoding
	for at := range calls {
		expect.NoError(t, r.WriteData(r.begin(strconv.Itoa(at+1)), true, make([]byte, 5)))
	}
	for err := error(nil); err == nil; {
		if _, err = r.ReadFrame(); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("connection still open, want it closed")
		}
	}
	if r := ask(t.Context(), d.dial(t), params, nil, "x-cosmos-block-height", "1"); r.err != nil || len(r.message) != size {
		t.Errorf("a client that reads gets %d bytes, %v", len(r.message), r.err)
	}
	expect.Eventually(t, "all memory is released", func() bool { return memory.Used() == 0 })
}
