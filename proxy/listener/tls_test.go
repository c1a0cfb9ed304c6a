package listener_test

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/upstream/expect"
)

func certificates() []tls.Certificate {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	return s.TLS.Certificates
}

// startTLS serves with TLS, HTTP/1 alone, for a test writes requests by hand.
func startTLS(t *testing.T, o listener.Options) *service {
	t.Helper()
	o.TLS = &tls.Config{Certificates: certificates(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	s := start(t, o)
	s.isTLS = true
	return s
}

// secured is a client's connection with TLS over it.
func secured(c client) client {
	over := tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // of a test
	return client{c.T, over, bufio.NewReader(over)}
}

// greetTLS makes sure that a connection is accepted, and then idle.
func (s *service) greetTLS(from string) client {
	s.Helper()
	c := secured(s.dial(from))
	s.greetAgain(c)
	return c
}

func TestLongestIdleTLSConnectionIsClosedForNewOne(t *testing.T) {
	s := startTLS(t, listener.Options{Most: 3})
	first, second := s.greetTLS("127.0.0.1"), s.greetTLS("127.0.0.1")
	s.greetTLS("127.0.0.1")
	s.greetAgain(first) // the second is idle for longest now
	s.greetTLS("127.0.0.1")
	if !second.ended() {
		t.Error("longest idle connection still open, want it closed for the new one")
	}
	if first.ask("/"); !first.answered() {
		t.Error("most recently used connection was closed, want the longest idle one")
	}
	expect.NoDiff(t, s.closed(), map[string]int{"idle": 1}, "closed")
}

func TestConnectionStalledInHandshakeIsClosedForNewOne(t *testing.T) {
	for name, says := range map[string][]byte{"before it": nil, "in its midst": {22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}} {
		t.Run(name, func(t *testing.T) {
			s := startTLS(t, listener.Options{Most: 2})
			for range 2 {
				expect.Value(s.dial("127.0.0.1").Write(says))(t)
			}
			s.become(2)
			s.greetTLS("127.0.0.1")
			expect.NoDiff(t, s.closed(), map[string]int{"idle": 1}, "closed")
		})
	}
}

func TestAddressIsLimitedToShareOfSlotsWithTLS(t *testing.T) {
	const flood, honest = "127.0.0.2", "127.0.0.3"
	s := startTLS(t, listener.Options{Most: 10, Share: 3, Exempt: func(netip.Addr) bool { return false }})
	var flooding []client
	for range 6 { // half of the slots, and one more
		flooding = append(flooding, s.greetTLS(flood))
	}
	for _, c := range flooding {
		s.occupy(c)
	}
	if refused := s.dial(flood); !refused.ended() {
		t.Error("connection admitted beyond the client's share")
	}
	for range 3 {
		s.greetTLS(honest)
	}
	if got := s.closed(); got["refused"] != 1 || got["idle"] > 0 {
		t.Errorf("closed %v", got)
	}
}

// Of a /64 a machine has ::1 at least.
func TestIPv6NetworkIsLimitedToShareOfSlots(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("this machine has no ::1, and slots_test.go holds the rest")
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := startOn(t, "[::]:0", listener.Options{Most: 10, Share: 3, Exempt: func(netip.Addr) bool { return false }}, (*http.Server).Serve)
	_, port, err := net.SplitHostPort(s.address)
	expect.NoError(t, err)
	six, four := net.JoinHostPort("::1", port), net.JoinHostPort("127.0.0.1", port)
	s.address = six
	for range 6 {
		s.occupy(s.dial("::1"))
	}
	if refused := s.dial("::1"); !refused.ended() {
		t.Error("connection admitted beyond the client's share")
	}
	s.address = four // IPv4, on the same socket
	for range 3 {
		s.greet("127.0.0.1")
	}
	if got := s.closed(); got["refused"] != 1 || got["share"] > 0 {
		t.Errorf("closed %v", got)
	}
}
