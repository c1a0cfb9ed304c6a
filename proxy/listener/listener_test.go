package listener_test

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
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// service answers "hello", and to /slow only once the test lets it.
type service struct {
	*testing.T
	address  string
	isTLS    bool
	registry *prometheus.Registry
	slow     chan struct{}
	idle     atomic.Int64 // times that a connection became idle
	busy     atomic.Int64 // and busy
	log      logtest.Log
}

func start(t *testing.T, o listener.Options) *service {
	t.Helper()
	return startOn(t, "127.0.0.1:0", o, (*http.Server).Serve)
}

// startOn serves at an address, by one of a server's methods.
func startOn(t *testing.T, address string, o listener.Options, serve func(*http.Server, net.Listener) error) *service {
	t.Helper()
	s := &service{T: t, registry: prometheus.NewPedanticRegistry(), slow: make(chan struct{})}
	o.Metrics, o.Logger = s.registry, slog.New(slog.NewTextHandler(&s.log, nil))
	l := expect.Value(listener.Listen(t.Context(), address, o))(t)
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
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s
}

func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/other" { // protocol, spoken until the test lets it end
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

// A client is a connection that a test writes to by hand.
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

func (c client) ask(path string) {
	c.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		c.Error(err)
	}
}

func (c client) answered() bool {
	res, err := http.ReadResponse(c.read, nil)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil && res.StatusCode == http.StatusOK
}

func (s *service) greet(from string) client {
	s.Helper()
	c := s.dial(from)
	s.greetAgain(c)
	return c
}

func (s *service) greetAgain(c client) {
	s.Helper()
	before := s.idle.Load()
	if c.ask("/"); !c.answered() {
		s.Fatal("no answer")
	}
	for s.idle.Load() == before {
		time.Sleep(time.Millisecond)
	}
}

// occupy has a connection wait for its answer.
func (s *service) occupy(c client) {
	s.Helper()
	before := s.busy.Load()
	for c.ask("/slow"); s.busy.Load() == before; {
		time.Sleep(time.Millisecond)
	}
}

func (c client) ended() bool {
	_, err := c.read.ReadByte()
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// counted are the values of a metric that are not zero, by their label.
func (s *service) counted(name string) map[string]int {
	s.Helper()
	found := map[string]int{}
	for label, n := range expect.Metrics(s, s.registry, name) {
		if n > 0 {
			found[label] = int(n)
		}
	}
	return found
}

func (s *service) closed() map[string]int { return s.counted("tipcache_http_connections_closed_total") }

func (s *service) become(open int) {
	s.Helper()
	for end := time.Now().Add(time.Minute); s.counted("tipcache_http_connections")[""] != open; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("%v connections, want %d", s.counted("tipcache_http_connections"), open)
		}
	}
}

func TestLongestIdleConnectionIsClosedForNewOne(t *testing.T) {
	s := start(t, listener.Options{Most: 3})
	first, second := s.greet("127.0.0.1"), s.greet("127.0.0.1")
	silent := s.dial("127.0.0.1") // and says nothing at all
	s.become(3)
	s.greetAgain(first) // the second is idle for longest now
	s.greet("127.0.0.1")
	if !second.ended() {
		t.Error("longest idle connection still open, want it closed for the new one")
	}
	s.greet("127.0.0.1")
	if !silent.ended() {
		t.Error("silent connection still open, want it closed for the new one")
	}
	if first.ask("/"); !first.answered() {
		t.Error("most recently used connection was closed, want the longest idle one")
	}
	expect.NoDiff(t, s.closed(), map[string]int{"idle": 2}, "closed")
	expect.Equal(t, strings.Count(s.log.String(), "connections are short"), 1, "log lines in a minute (%s)", s.log.String())
}

func TestConnectionWithRequestInProgressIsNotIdle(t *testing.T) {
	s := start(t, listener.Options{Most: 2})
	busy := []client{s.dial("127.0.0.1"), s.dial("127.0.0.1")}
	for _, c := range busy {
		s.occupy(c)
	}
	waiting := s.dial("127.0.0.1") // in the kernel's queue
	waiting.ask("/")
	for len(s.counted("tipcache_http_connections_waits_total")) == 0 {
		time.Sleep(time.Millisecond)
	}
	close(s.slow)
	for _, c := range busy {
		if !c.answered() {
			t.Error("connection closed before its response")
		}
	}
	if !waiting.answered() {
		t.Error("waiting client got no response")
	}
}

func TestHijackedConnectionIsNotIdle(t *testing.T) {
	s := start(t, listener.Options{Most: 2})
	other := s.dial("127.0.0.1")
	if other.ask("/other"); !other.answered() {
		t.Fatal("no response")
	}
	idle := s.greet("127.0.0.1")
	s.greet("127.0.0.1")
	if !idle.ended() {
		t.Error("idle connection still open, want it closed for the new one")
	}
	_ = other.SetReadDeadline(time.Now())
	if other.ended() {
		t.Error("connection of the other client was closed")
	}
	close(s.slow)
}

func TestAddressIsLimitedToShareOfSlots(t *testing.T) {
	const flood, honest = "127.0.0.2", "127.0.0.3"
	s := start(t, listener.Options{Most: 10, Share: 3, Exempt: func(a netip.Addr) bool { return a.String() == "127.0.0.4" }})
	var flooding []client
	for range 6 { // half of the slots, and one more
		flooding = append(flooding, s.greet(flood))
	}
	if len(s.closed()) > 0 {
		t.Errorf("below half of the slots: %v", s.closed())
	}
	flooding = append(flooding, s.greet(flood))
	if !flooding[0].ended() {
		t.Error("client's own idle connection still open, want it closed for the new one")
	}
	for _, c := range flooding[1:] {
		s.occupy(c)
	}
	if refused := s.dial(flood); !refused.ended() {
		t.Error("connection admitted beyond the client's share")
	}
	for range 3 {
		s.greet(honest)
	}
	others := s.closed()
	for range 6 { // of a proxy with many clients behind it
		s.greet("127.0.0.4")
	}
	if others["share"] == 0 || others["refused"] == 0 || others["idle"] > 0 {
		t.Errorf("closed %v", others)
	}
	if now := s.closed(); now["refused"] != others["refused"] || now["share"] != others["share"] {
		t.Errorf("an exempt address has a share: %v, then %v", others, now)
	}
}

func TestReleasedSlotsDoNotCountAgainstTheShare(t *testing.T) {
	s := start(t, listener.Options{Most: 6, Share: 2, Exempt: func(netip.Addr) bool { return false }})
	for range 3 {
		_ = s.greet("127.0.0.2").Close()
		s.become(0)
	}
	for _, other := range []string{"127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.2"} {
		s.greet(other)
	}
	if closed := s.closed(); len(closed) > 0 {
		t.Errorf("closed = %v, want none", closed)
	}
}

func TestCloseEndsWaitForSlot(t *testing.T) {
	l := expect.Value(listener.Listen(t.Context(), "127.0.0.1:0", listener.Options{Most: 1}))(t)
	server := &http.Server{ConnState: conn.State, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}
	ended := make(chan error)
	go func() { ended <- server.Serve(l) }()
	s := &service{T: t, address: l.Addr().String()}
	for range 2 {
		s.dial("127.0.0.1").ask("/slow")
	}
	expect.NoError(t, server.Close())
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
