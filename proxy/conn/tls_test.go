package conn_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/upstream/expect"
)

// startTLS serves TLS with HTTP/1 only, because tests write requests by hand.
func startTLS(t *testing.T, o conn.Options) *service {
	t.Helper()
	o.TLS = &tls.Config{Certificates: certificates(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	s := start(t, o)
	s.isTLS = true
	return s
}

// withTLS returns a client that uses TLS over the connection of c.
func withTLS(c client) client {
	conn := tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // the certificate of a test
	return client{c.T, conn, bufio.NewReader(conn)}
}

// connectTLS opens a connection and waits until it is idle after a request.
func (s *service) connectTLS(from string) client {
	s.Helper()
	c := withTLS(s.dial(from))
	s.requestAndWaitUntilIdle(c)
	return c
}

// The lane closes the connection after a response that is in progress, and then TLS sends its alert.
func TestIdleTLSConnectionIsClosedByItsLane(t *testing.T) {
	s := startTLS(t, conn.Options{Settings: conn.Settings{Most: 1}})
	first := s.connectTLS("127.0.0.1")
	s.dial("127.0.0.1")
	below := first.Conn.(*tls.Conn).NetConn() //nolint:forcetypeassert // withTLS returns no other
	if got, err := io.ReadAll(below); len(got) == 0 || err != nil {
		t.Errorf("received %d bytes and %v when another client connected, want an alert", len(got), err)
	}
}

func TestConnectionStalledInHandshakeIsClosedForNewOne(t *testing.T) {
	for name, sent := range map[string][]byte{"before its first byte": nil, "after its first bytes": {22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}} {
		t.Run(name, func(t *testing.T) {
			s := startTLS(t, conn.Options{Settings: conn.Settings{Most: 2}})
			for range 2 {
				expect.Value(s.dial("127.0.0.1").Write(sent))(t)
			}
			s.waitForConnections(2)
			s.connectTLS("127.0.0.1")
			expect.NoDiff(t, s.closedConnections(), map[string]int{"idle": 1}, "closed connections")
		})
	}
}

func TestConnectionIsClosedIfItsHandshakeTakesTooLong(t *testing.T) {
	s := startTLS(t, conn.Options{Header: 20 * time.Millisecond})
	if c := s.dial("127.0.0.1"); !c.isClosed() {
		t.Error("connection without a handshake is open, want it closed")
	}
}

func TestAddressIsLimitedToItsShareOfSlotsWithTLS(t *testing.T) {
	const flood, honest = "127.0.0.2", "127.0.0.3"
	s := startTLS(t, conn.Options{Settings: conn.Settings{Most: 10, Share: 3}, Exempt: func(netip.Addr) bool { return false }})
	var flooding []client
	for range 6 { // half of the slots, and one more
		flooding = append(flooding, s.connectTLS(flood))
	}
	for _, c := range flooding {
		s.occupy(c)
	}
	if refused := s.dial(flood); !refused.isClosed() {
		t.Error("connection beyond the client's share still open, want it refused")
	}
	for range 3 {
		s.connectTLS(honest)
	}
	if got := s.closedConnections(); got["refused"] != 1 || got["idle"] > 0 {
		t.Errorf("closed connections = %v, want 1 refused and none idle", got)
	}
}

// The test uses one address of a /64, because a machine may have only ::1.
func TestIPv6NetworkIsLimitedToShareOfSlots(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("this machine has no ::1")
	} else {
		expect.NoError(t, l.Close())
	}
	s := startOn(t, "[::]:0", conn.Options{Settings: conn.Settings{Most: 10, Share: 3}, Exempt: func(netip.Addr) bool { return false }}, (*http.Server).Serve)
	_, port, err := net.SplitHostPort(s.address)
	expect.NoError(t, err)
	ipv6, ipv4 := net.JoinHostPort("::1", port), net.JoinHostPort("127.0.0.1", port)
	s.address = ipv6
	for range 6 {
		s.occupy(s.dial("::1"))
	}
	if refused := s.dial("::1"); !refused.isClosed() {
		t.Error("connection beyond the client's share still open, want it refused")
	}
	s.address = ipv4 // on the same socket
	for range 3 {
		s.connect("127.0.0.1")
	}
	if got := s.closedConnections(); got["refused"] != 1 || got["share"] > 0 {
		t.Errorf("closed connections = %v, want 1 refused and none of the reason share", got)
	}
}
