package conn_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// A service responds with "hello", and to /slow only once slow is closed.
type service struct {
	*testing.T
	address  string
	isTLS    bool
	registry *prometheus.Registry
	slow     chan struct{}
	idle     atomic.Int64 // how often a connection became idle
	busy     atomic.Int64 // how often a connection became busy
	writing  atomic.Int64 // requests to /unread
	body     []byte
	log      logtest.Log
}

func start(t *testing.T, o conn.Options) *service {
	t.Helper()
	return startOn(t, "127.0.0.1:0", o, (*http.Server).Serve)
}

// startOn serves at an address with a method of http.Server.
func startOn(t *testing.T, address string, o conn.Options, serve func(*http.Server, net.Listener) error) *service {
	t.Helper()
	s := &service{T: t, registry: prometheus.NewPedanticRegistry(), slow: make(chan struct{})}
	o.Metrics, o.Logger = s.registry, slog.New(slog.NewTextHandler(&s.log, nil))
	l := expect.Value(conn.Listen(t.Context(), address, o))(t)
	s.address = l.Addr().String()
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), ConnContext: conn.Context, Handler: http.HandlerFunc(s.serve), ConnState: func(c net.Conn, state http.ConnState) {
		switch conn.State(c, state); state {
		case http.StateIdle:
			s.idle.Add(1)
		case http.StateActive:
			s.busy.Add(1)
		}
	}}
	ended := make(chan error)
	go func() { ended <- serve(server, l) }()
	t.Cleanup(func() {
		_ = server.Close()
		expect.ErrorIs(t, <-ended, http.ErrServerClosed, "Serve")
	})
	return s
}

func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/other" { // another protocol, until slow is closed
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			s.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		<-s.slow
		return
	}
	if r.URL.Path == "/unread" { // s.body is being written until slow is closed
		conn.Of(r).BeginBody(s.body)
		defer conn.Of(r).EndBody(s.body)
		s.writing.Add(1)
		<-s.slow
	}
	if r.URL.Path == "/slow" {
		select {
		case <-s.slow:
		case <-r.Context().Done():
		}
	}
	if r.URL.Path == "/from" {
		_, _ = io.WriteString(w, conn.Of(r).Address().String()+" "+r.RemoteAddr)
		return
	}
	_, _ = io.WriteString(w, "hello")
}

// A client is a connection to which a test writes requests by hand.
type client struct {
	*testing.T
	net.Conn
	read *bufio.Reader
}

func (s *service) dial(from string) client {
	s.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	c, err := d.DialContext(s.Context(), "tcp", s.address)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return client{s.T, c, bufio.NewReader(c)}
}

func (c client) request(path string) {
	c.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		c.Error(err)
	}
}

func (c client) receivesOK() bool {
	res, err := http.ReadResponse(c.read, nil)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil && res.StatusCode == http.StatusOK
}

func (s *service) connect(from string) client {
	s.Helper()
	c := s.dial(from)
	s.requestAndWaitUntilIdle(c)
	return c
}

func (s *service) requestAndWaitUntilIdle(c client) {
	s.Helper()
	before := s.idle.Load()
	if c.request("/"); !c.receivesOK() {
		s.Fatal("GET / failed, want 200")
	}
	expect.EventuallyAtLeast(s, "connection idle", s.idle.Load, before+1)
}

// occupy sends a request to which the service does not respond yet.
func (s *service) occupy(c client) {
	s.Helper()
	before := s.busy.Load()
	c.request("/slow")
	expect.EventuallyAtLeast(s, "connection busy", s.busy.Load, before+1)
}

func (c client) isClosed() bool {
	_, err := c.read.ReadByte()
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// metric returns the values of a metric other than 0 by label.
func (s *service) metric(name string) map[string]int {
	s.Helper()
	found := map[string]int{}
	for label, n := range expect.Metrics(s, s.registry, name) {
		if n > 0 {
			found[label] = int(n)
		}
	}
	return found
}

func (s *service) closedConnections() map[string]int {
	return s.metric("tipcache_http_connections_closed_total")
}

func (s *service) waitForConnections(open int) {
	s.Helper()
	expect.EventuallyEqual(s, fmt.Sprintf("%d open connections", open), func() int { return s.metric("tipcache_http_connections")[""] }, open)
}

func TestLongestIdleConnectionIsClosedForNewOne(t *testing.T) {
	s := start(t, conn.Options{Settings: conn.Settings{Most: 3}})
	first, second := s.connect("127.0.0.1"), s.connect("127.0.0.1")
	silent := s.dial("127.0.0.1") // sends nothing
	s.waitForConnections(3)
	s.requestAndWaitUntilIdle(first) // second has now been idle for longest
	s.connect("127.0.0.1")
	if !second.isClosed() {
		t.Error("longest idle connection still open, want it closed for the new one")
	}
	s.connect("127.0.0.1")
	if !silent.isClosed() {
		t.Error("silent connection still open, want it closed for the new one")
	}
	if first.request("/"); !first.receivesOK() {
		t.Error("most recently used connection was closed, want the longest idle one")
	}
	expect.NoDiff(t, s.closedConnections(), map[string]int{"idle": 2}, "closed connections")
	expect.Equal(t, strings.Count(s.log.String(), "connections are short"), 1, "log lines in a minute about the lack of slots (%s)", s.log.String())
}

func TestConnectionIsNotClosedRightAfterItsResponse(t *testing.T) {
	s := start(t, conn.Options{Settings: conn.Settings{Most: 1}})
	began := time.Now()
	first := s.connect("127.0.0.1")
	s.dial("127.0.0.1")
	if closed := first.isClosed(); !closed || time.Since(began) < 100*time.Millisecond {
		t.Errorf("connection closed for a new one = %t %s after its request, want true after at least 100ms", closed, time.Since(began))
	}
}

func TestConnectionWithRequestInProgressIsNotIdle(t *testing.T) {
	s := start(t, conn.Options{Settings: conn.Settings{Most: 2}})
	busy := []client{s.dial("127.0.0.1"), s.dial("127.0.0.1")}
	for _, c := range busy {
		s.occupy(c)
	}
	waiting := s.dial("127.0.0.1") // in the kernel's queue
	waiting.request("/")
	expect.EventuallyAtLeast(t, "a wait for a slot", func() int { return len(s.metric("tipcache_http_connections_waits_total")) }, 1)
	close(s.slow)
	for _, c := range busy {
		if !c.receivesOK() {
			t.Error("request in progress failed, want 200")
		}
	}
	if !waiting.receivesOK() {
		t.Error("request of the waiting client failed, want 200")
	}
}

func TestHijackedConnectionIsNotIdle(t *testing.T) {
	s := start(t, conn.Options{Settings: conn.Settings{Most: 2}})
	other := s.dial("127.0.0.1")
	if other.request("/other"); !other.receivesOK() {
		t.Fatal("GET /other failed, want 200")
	}
	idle := s.connect("127.0.0.1")
	s.connect("127.0.0.1")
	if !idle.isClosed() {
		t.Error("idle connection still open, want it closed for the new one")
	}
	_ = other.SetReadDeadline(time.Now())
	if other.isClosed() {
		t.Error("hijacked connection was closed, want it open")
	}
	close(s.slow)
}

func TestAddressIsLimitedToItsShareOfSlots(t *testing.T) {
	const flood, honest = "127.0.0.2", "127.0.0.3"
	s := start(t, conn.Options{Settings: conn.Settings{Most: 10, Share: 3}, Exempt: func(a netip.Addr) bool { return a.String() == "127.0.0.4" }})
	var flooding []client
	for range 6 { // half of the slots, and one more
		flooding = append(flooding, s.connect(flood))
	}
	if len(s.closedConnections()) > 0 {
		t.Errorf("closed connections below half of the slots = %v, want none", s.closedConnections())
	}
	flooding = append(flooding, s.connect(flood))
	if !flooding[0].isClosed() {
		t.Error("client's own idle connection still open, want it closed for the new one")
	}
	for _, c := range flooding[1:] {
		s.occupy(c)
	}
	if refused := s.dial(flood); !refused.isClosed() {
		t.Error("connection beyond the client's share still open, want it refused")
	}
	for range 3 {
		s.connect(honest)
	}
	others := s.closedConnections()
	for range 6 { // an exempt proxy with many clients
		s.connect("127.0.0.4")
	}
	if others["share"] == 0 || others["refused"] == 0 || others["idle"] > 0 {
		t.Errorf("closed connections = %v, want some of the reasons share and refused, and none idle", others)
	}
	if now := s.closedConnections(); now["refused"] != others["refused"] || now["share"] != others["share"] {
		t.Errorf("counts of closed connections = %v after connections of an exempt address, want share and refused as before: %v", now, others)
	}
}

func TestShareIsATwentiethOfTheSlotsAndAtLeast16(t *testing.T) {
	for most, share := range map[int]int{20: 16, 340: 17} {
		s := start(t, conn.Options{Settings: conn.Settings{Most: most}, Exempt: func(a netip.Addr) bool { return a.String() != "127.0.0.2" }})
		for range most/2 - share/2 {
			s.connect("127.0.0.3")
		}
		for range share {
			s.connect("127.0.0.2")
		}
		expect.Equal(t, s.closedConnections()["share"], 0, "connections closed of %d when the share of %d is used", share, most)
		s.connect("127.0.0.2")
		expect.Equal(t, s.closedConnections()["share"], 1, "connections closed of %d beyond the share of %d", share+1, most)
	}
}

func TestReleasedSlotsDoNotCountAgainstTheShare(t *testing.T) {
	s := start(t, conn.Options{Settings: conn.Settings{Most: 6, Share: 2}, Exempt: func(netip.Addr) bool { return false }})
	for range 3 {
		_ = s.connect("127.0.0.2").Close()
		s.waitForConnections(0)
	}
	for _, other := range []string{"127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.2"} {
		s.connect(other)
	}
	if closed := s.closedConnections(); len(closed) > 0 {
		t.Errorf("closed connections = %v, want none", closed)
	}
}

func TestCloseEndsWaitForSlot(t *testing.T) {
	l := expect.Value(conn.Listen(t.Context(), "127.0.0.1:0", conn.Options{Settings: conn.Settings{Most: 1}}))(t)
	server := &http.Server{ConnState: conn.State, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}
	ended := make(chan error)
	go func() { ended <- server.Serve(l) }()
	s := &service{T: t, address: l.Addr().String()}
	for range 2 {
		s.dial("127.0.0.1").request("/slow")
	}
	expect.NoError(t, server.Close())
	expect.ErrorIs(t, <-ended, http.ErrServerClosed, "Serve")
}

func TestBodyThatSeveralClientsReadIsReservedOnce(t *testing.T) {
	memory := account.New(1<<30, nil)
	s := start(t, conn.Options{Memory: memory})
	s.body = make([]byte, 1<<20)
	for range 3 {
		s.dial("127.0.0.1").request("/unread")
	}
	expect.EventuallyEqual(t, "three clients read the body", s.writing.Load, 3)
	expect.EventuallyAtLeast(t, "1 MiB is reserved", memory.Used, 1)
	expect.Equal(t, memory.Used(), 1<<20, "reserved bytes")
	close(s.slow)
	expect.EventuallyEqual(t, "nothing is reserved", memory.Used, 0)
}
