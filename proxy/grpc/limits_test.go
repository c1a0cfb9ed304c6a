package grpc_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
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

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
	"github.com/tipcache/tipcache/upstream/node"
)

// invokeAt14 invokes params at block 14.
func invokeAt14(t testing.TB, c *google.ClientConn, pairs ...string) reply {
	t.Helper()
	return invoke(t.Context(), c, params, "", append(pairs, "x-cosmos-block-height", "14")...)
}

// startHeldCall starts a call of a method at block 14, and returns when the node has its request. The call ends after
// release.
func (n *recordedNode) startHeldCall(t testing.TB, c *google.ClientConn, path, message string) (ended <-chan error, release func()) {
	t.Helper()
	release = n.hold(t, path)
	done := make(chan error, 1)
	before := n.requests("gRPC " + path)
	go func() { done <- invoke(t.Context(), c, path, message, "x-cosmos-block-height", "14").err }()
	expect.EventuallyAtLeast(t, "the node gets the request", func() int { return n.requests("gRPC " + path) }, before+1)
	return done, release
}

func TestListenerServesTLS(t *testing.T) {
	t.Parallel()
	certificates := httptest.NewTLSServer(http.NotFoundHandler())
	certificates.Close()
	d := open(t, newRecordedNode(t), true, func(s *setup) {
		s.listener.TLS = &tls.Config{Certificates: certificates.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	})
	c := d.dial(t, google.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}))) //nolint:gosec // of a test
	invokeAt14(t, c).expectMessageAt(t, "14")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if r := invoke(ctx, d.dial(t), params, ""); r.err == nil {
		t.Error("call without TLS: error = nil, want one")
	}
}

func TestDrainEndsCallsInFlightAndRejectsNewOnes(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	d := open(t, n, true)
	other, _ := d.serve(t, conn.Options{})
	both := manual.NewBuilderWithScheme("both")
	both.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: d.addr}, {Addr: other}}})
	c := dial(t, "both:///", google.WithResolvers(both))
	ended, release := n.startHeldCall(t, c, params, "")
	drained := make(chan struct{})
	go func() { d.server.GracefulStop(); close(drained) }()
	path, message := recordedMessage(t, "grpc_balance")
	expect.Eventually(t, "a call goes to the other server", func() bool {
		r := invoke(t.Context(), c, path, message, "x-cosmos-block-height", "14")
		expect.NoError(t, r.err)
		return r.from == other
	})
	select {
	case err := <-ended:
		t.Errorf("the call in flight has ended: %v", err)
	default:
	}
	release()
	expect.NoError(t, <-ended)
	<-drained
}

func TestStreamsEndInADrain(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	d := open(t, n, true)
	path, message := recordedMessage(t, "grpc_reflection_list")
	n.hold(t, path)
	s := openStream(t, d.dial(t), path, message)
	d.handler.Drain()
	if err := s.RecvMsg(new([]byte)); status.Code(err) != codes.Unavailable {
		t.Errorf("error of the stream = %v, want Unavailable", err)
	}
}

func TestSlotIsReclaimedFromIdleClientOnly(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	d := open(t, n, true, func(s *setup) { s.listener.Most = 2 })
	idle, busy := d.dial(t), d.dial(t)
	invokeAt14(t, idle).expectMessageAt(t, "14")
	path, message := recordedMessage(t, "grpc_balance")
	ended, release := n.startHeldCall(t, busy, path, message)
	invokeAt14(t, d.dial(t)).expectMessageAt(t, "14")
	expect.Eventually(t, "the idle connection is closed", func() bool { return idle.GetState() != connectivity.Ready })
	release()
	if err := <-ended; err != nil || busy.GetState() != connectivity.Ready {
		t.Errorf("call in flight = %v on a connection in state %v, want no error and READY", err, busy.GetState())
	}
}

func TestCallsNeedAKeyAndCountAgainstItsRate(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true, withKey(2))
	c := d.dial(t)
	for _, call := range []struct {
		key  string
		want codes.Code
	}{{"", codes.Unauthenticated}, {"guess", codes.Unauthenticated}, {"secret", codes.OK}, {"secret", codes.OK}, {"secret", codes.ResourceExhausted}} {
		var pairs []string
		if call.key != "" {
			pairs = []string{"x-api-key", call.key}
		}
		r := invokeAt14(t, c, pairs...)
		r.expectCode(t, call.want, "call with key %q", call.key)
		expect.Equal(t, len(r.trailer.Get("grpc-retry-pushback-ms")) == 1, call.want == codes.ResourceExhausted, "retry pushback in %v", r.trailer)
		expect.Equal(t, len(r.header.Get("ratelimit")) == 1, call.want == codes.OK, "rate limit in %v", r.header)
	}
}

func TestCallIsLoggedAndCounted(t *testing.T) {
	t.Parallel()
	var log logtest.Log
	n := newRecordedNode(t)
	d := open(t, n, true, func(s *setup) {
		s.web.Record.AccessLog, s.web.Logger = &log, slog.New(slog.NewTextHandler(io.Discard, nil))
	})
	c := d.dial(t, google.WithUserAgent("a test"))
	unknown, message := recordedMessage(t, "grpc_account_unknown")
	invokeAt14(t, c, "x-request-id", "first")
	invokeAt14(t, c)
	invoke(t.Context(), c, unknown, message, "x-cosmos-block-height", "14")
	canceled, message := recordedMessage(t, "grpc_balance")
	release := n.hold(t, canceled)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan reply)
	go func() { ended <- invoke(ctx, c, canceled, message, "x-cosmos-block-height", "14") }()
	expect.EventuallyEqual(t, "the node gets the request", func() int { return n.requests("gRPC " + canceled) }, 1)
	cancel()
	<-ended
	invokeAt14(t, c) // the server has then read the reset, which the client sent before
	release()
	expect.EventuallyEqual(t, "five calls are logged", func() int { return log.Count("\n") }, 5)
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
			t.Errorf("log line = %s, want the client, its user agent, a request id and POST", line)
		}
		got = append(got, fmt.Sprint(l.Level, " ", l.Route, " ", l.Path, " ", l.Status, " ", l.Outcome, " at ", l.Height))
	}
	want := []string{
		"INFO grpc state " + params + " 200 miss at 14",
		"INFO grpc state " + params + " 200 hit at 14",
		"INFO grpc state " + unknown + " 200 miss at 14",
		"INFO grpc state " + params + " 200 hit at 14",
		"INFO grpc state " + canceled + " 499 abandoned at 0",
	}
	slices.Sort(got) // a call may end before its line is written
	slices.Sort(want)
	expect.NoDiff(t, got, want, "log")
	expect.Contains(t, log.String(), `"request_id":"first"`, "log")
	expect.EventuallyEqual(t, "two hits are counted", func() float64 { return expect.Metric(t, d.metrics, "tipcache_proxy_requests_total", "hit") }, 2)
}

func TestFailuresOfNodesAreLoggedAndCountedAsServerErrors(t *testing.T) {
	t.Parallel()
	var log logtest.Log
	const uncached, stream = "/x.Query/Uncached", "/x.Y/Z"
	n := newRecordedNode(t)
	d := open(t, n, true, func(s *setup) {
		s.web.Record.AccessLog, s.web.Logger = &log, slog.New(slog.NewTextHandler(io.Discard, nil))
		s.grpc.State.Rows = map[string]dialect.Row{price: {Cost: node.Cheap}, uncached: {Class: blocks.Never}}
	})
	n.rpc.Close() // otherwise it answers values that gRPC cannot read
	c := d.dial(t)
	call := func(method string, fails codes.Code, wantStatus, wantLevel, wantFault string) {
		t.Helper()
		n.setService(failWith(status.New(fails, "test"), nil, nil))
		before := log.Count("\n")
		invoke(t.Context(), c, method, "", "x-cosmos-block-height", "14").expectCode(t, fails, "%s", method)
		expect.EventuallyAtLeast(t, method+" is logged", func() int { return log.Count("\n") }, before+1)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if line := lines[len(lines)-1]; !strings.Contains(line, `"status":`+wantStatus) || !strings.Contains(line, `"level":"`+wantLevel+`"`) {
			t.Errorf("log line of %s, which fails with %v: %s; want status %s and level %s", method, fails, line, wantStatus, wantLevel)
		}
		expect.Equal(t, expect.Metric(t, d.metrics, "tipcache_proxy_requests_total", wantStatus, wantFault) > 0, true, "calls are counted with status %s and fault %q", wantStatus, wantFault)
	}
	call(stream, codes.NotFound, "200", "INFO", "")
	call(stream, codes.Unavailable, "502", "ERROR", "server")
	call(price, codes.Internal, "502", "ERROR", "server")
	call(uncached, codes.Internal, "502", "ERROR", "server")
}

// A rawClient reads and writes HTTP/2 frames, including frames that no library would write.
type rawClient struct {
	testing.TB
	net.Conn
	*http2.Framer
	nextStream uint32
	path       string // of calls; "" means params
	encoding   string // of messages
	timeout    string // grpc-timeout of calls; "" means none
	mayClose   bool   // the server may close the connection at any time
}

// dialRaw connects a rawClient from an address.
func (d *servers) dialRaw(t testing.TB, from string) *rawClient {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	c := expect.Value(dialer.DialContext(t.Context(), "tcp", d.addr))(t)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	r := &rawClient{TB: t, Conn: c, Framer: http2.NewFramer(c, bufio.NewReader(c)), nextStream: 1, encoding: "identity"}
	r.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	expect.Value(io.WriteString(c, http2.ClientPreface))(t)
	expect.NoError(t, r.WriteSettings())
	return r
}

// startCall starts a call at a height, 14 by default, without its message.
func (r *rawClient) startCall(height ...string) (stream uint32) {
	r.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	fields := [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", cmp.Or(r.path, params)}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}, {"x-cosmos-block-height", append(height, "14")[0]}, {"grpc-encoding", r.encoding},
	}
	if r.timeout != "" {
		fields = append(fields, [2]string{"grpc-timeout", r.timeout})
	}
	for _, f := range fields {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}) // keeps the field out of the dynamic table
	}
	stream = r.nextStream
	r.nextStream += 2
	if err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil && !r.mayClose {
		r.Fatal(err)
	}
	return stream
}

// readUntil reads frames until isLast returns true.
func (r *rawClient) readUntil(what string, isLast func(http2.Frame) bool) {
	r.Helper()
	for {
		f, err := r.ReadFrame()
		if err != nil {
			r.Fatalf("read frame = %v, want %s", err, what)
		}
		if isLast(f) {
			return
		}
	}
}

// readStatus reads frames until a call ends with a status, and the headers hold it.
func (r *rawClient) readStatus(stream uint32, status string) {
	r.Helper()
	r.readUntil("grpc-status "+status, func(f http2.Frame) bool {
		h, ok := f.(*http2.MetaHeadersFrame)
		return ok && h.StreamID == stream && h.StreamEnded() && slices.Contains(h.Fields, hpack.HeaderField{Name: "grpc-status", Value: status})
	})
}

func TestConnectionHasABoundedNumberOfStreams(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true)
	r := d.dialRaw(t, "127.0.0.1")
	most := uint32(0)
	r.readUntil("the settings", func(f http2.Frame) bool {
		s, ok := f.(*http2.SettingsFrame)
		if ok && !s.IsAck() {
			most, _ = s.Value(http2.SettingMaxConcurrentStreams)
		}
		return most > 0
	})
	for range most {
		r.startCall()
	}
	last := r.startCall()
	r.readUntil("the refusal of the last stream", func(f http2.Frame) bool {
		reset, ok := f.(*http2.RSTStreamFrame)
		return ok && reset.StreamID == last && reset.ErrCode == http2.ErrCodeRefusedStream
	})
	invokeAt14(t, d.dial(t)).expectMessageAt(t, "14")
}

func TestClientThatFloodsPingsIsDisconnected(t *testing.T) {
	t.Parallel()
	r := open(t, newRecordedNode(t), true).dialRaw(t, "127.0.0.1")
	for range 10 {
		if err := r.WritePing(false, [8]byte{}); err != nil {
			break // the server has closed the connection
		}
	}
	r.readUntil("a GOAWAY frame", func(f http2.Frame) bool {
		goAway, ok := f.(*http2.GoAwayFrame)
		return ok && goAway.ErrCode == http2.ErrCodeEnhanceYourCalm
	})
}

func TestCallsResetAtOnceCountAgainstTheirClientOnly(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true, func(s *setup) {
		s.web.Limits.Address = limits.Rate{Requests: 1, Per: time.Hour, Burst: 300}
	})
	r := d.dialRaw(t, "127.0.0.2")
	for range 2000 {
		expect.NoError(t, r.WriteRSTStream(r.startCall(), http2.ErrCodeCancel))
	}
	expect.EventuallyAtLeast(t, "the client is refused", func() float64 { return expect.Metric(t, d.metrics, "tipcache_proxy_limits_total", "refused") }, 1)
	invokeAt14(t, d.dial(t)).expectMessageAt(t, "14") // another client
	expect.Eventually(t, "all calls have ended", func() bool {
		return expect.Metric(t, d.metrics, "tipcache_proxy_requests_total", "grpc state") > 2000
	})
}

func TestCallWithoutMessageDoesNotEndOtherCalls(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true, func(s *setup) { s.web.RequestTimeout = 50 * time.Millisecond })
	r := d.dialRaw(t, "127.0.0.1")
	r.readStatus(r.startCall(), "4")
	next := r.startCall()
	expect.NoError(t, r.WriteData(next, true, make([]byte, 5)))
	r.readUntil("a response to the next call", func(f http2.Frame) bool { return f.Header().StreamID == next })
}

func TestClientThatDoesNotReadIsDisconnectedIfMemoryIsShort(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"identity", "gzip"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			testUnreadResponses(t, encoding)
		})
	}
}

// testUnreadResponses tests a client that sends messages in an encoding and reads no response.
func testUnreadResponses(t *testing.T, encoding string) {
	n := newRecordedNode(t)
	const calls, size = 8, 1 << 20
	for i := range calls {
		height := strconv.Itoa(i + 1)
		n.byGRPC[callKey(params, "", height)] = exchange{
			Messages: []string{hex.EncodeToString(make([]byte, size))}, Headers: map[string]string{"x-cosmos-block-height": height}, Trailers: map[string]string{"grpc-status": "0"},
		}
	}
	memory := account.New(3*size, nil)
	d := open(t, n, true, func(s *setup) { s.listener.Memory = memory })
	r := d.dialRaw(t, "127.0.0.1") // grants only the initial window
	r.encoding = encoding
	for i := range calls {
		expect.NoError(t, r.WriteData(r.startCall(strconv.Itoa(i+1)), true, make([]byte, 5)))
	}
	for err := error(nil); err == nil; {
		if _, err = r.ReadFrame(); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("connection still open, want it closed")
		}
	}
	if r := invoke(t.Context(), d.dial(t), params, "", "x-cosmos-block-height", "1"); r.err != nil || len(r.message) != size {
		t.Errorf("response to a client that reads = %d bytes, error %v; want %d bytes", len(r.message), r.err, size)
	}
	expect.EventuallyEqual(t, "all memory is released", memory.Used, 0)
}
