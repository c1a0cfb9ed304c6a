package conn_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/upstream/expect"
)

func isProxy(a netip.Addr) bool { return a == netip.MustParseAddr("127.0.0.2") }

func header(t *testing.T, version byte, client string) string {
	t.Helper()
	var b bytes.Buffer
	address := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(client))
	if _, err := proxyproto.HeaderProxyFromAddrs(version, address, address).WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// readAddress returns the client address that the server sees, on the connection and in the request.
func (c client) readAddress() string {
	c.Helper()
	c.request("/from")
	res, err := http.ReadResponse(c.read, nil)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

func (c client) send(text string) {
	c.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.Error(err)
	}
}

func TestClientAddressIsTakenFromProxyHeader(t *testing.T) {
	const v4, v6 = "192.0.2.7:4711", "[2001:db8::7]:4711"
	local, unknown := header(t, 2, "127.0.0.2:9")[:12]+"\x20\x00\x00\x00", "PROXY UNKNOWN\r\n"
	for name, tt := range map[string]struct{ header, want string }{
		"version 1 with IPv4":             {header(t, 1, v4), "192.0.2.7 " + v4},
		"version 1 with IPv6":             {header(t, 1, v6), "2001:db8::7 " + v6},
		"version 2 with IPv4":             {header(t, 2, v4), "192.0.2.7 " + v4},
		"version 2 with IPv6":             {header(t, 2, v6), "2001:db8::7 " + v6},
		"a health check by version 2":     {local, "127.0.0.2 127.0.0.2:"},
		"an unknown client, by version 1": {unknown, "127.0.0.2 127.0.0.2:"},
		"version 2 for an IPv4 over IPv6": {header(t, 2, "[::ffff:192.0.2.7]:4711"), "192.0.2.7 " + v4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, begin := range []func(*testing.T, conn.Options) *service{start, startTLS} {
				s := begin(t, conn.Options{Proxies: isProxy})
				c := s.dial("127.0.0.2")
				c.send(tt.header[:5])
				c.send(tt.header[5:])
				if s.isTLS {
					c = withTLS(c)
				}
				for range 2 {
					if got := c.readAddress(); !strings.HasPrefix(got, tt.want) {
						t.Errorf("client = %q, want %q (TLS: %t)", got, tt.want, s.isTLS)
					}
				}
			}
		})
	}
}

func TestConnectionWithoutTrustedProxyHeaderIsClosed(t *testing.T) {
	s := start(t, conn.Options{Proxies: isProxy})
	for name, text := range map[string]string{
		"a request":               "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"a malformed header":      "PROXY TCP4 192.0.2.7 192.0.2.8 x y\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"a header without an end": "PROXY " + strings.Repeat("x", 200),
	} {
		c := s.dial("127.0.0.2")
		c.send(text)
		if !c.isClosed() {
			t.Errorf("%s: connection open, want it closed", name)
		}
	}
	untrusted := s.dial("127.0.0.3")
	_, _ = io.WriteString(untrusted, header(t, 1, "192.0.2.7:1")+"GET / HTTP/1.1\r\nHost: x\r\n\r\n") // it may be closed already
	if !untrusted.isClosed() {
		t.Error("header of an untrusted peer: connection open, want it closed")
	}
	expect.NoDiff(t, s.closedConnections(), map[string]int{"proxy": 4}, "closed connections")
}

func TestShareCountsAgainstClientInProxyHeader(t *testing.T) {
	s := start(t, conn.Options{Settings: conn.Settings{Most: 6, Share: 2}, Proxies: isProxy, Exempt: func(netip.Addr) bool { return false }})
	open := func(from string) client {
		c := s.dial("127.0.0.2")
		c.send(header(t, 2, from))
		s.requestAndWaitUntilIdle(c)
		return c
	}
	first := open("192.0.2.7:1")
	for _, from := range []string{"192.0.2.7:2", "192.0.2.8:1", "192.0.2.9:1", "192.0.2.7:3"} {
		open(from)
	}
	if !first.isClosed() {
		t.Error("first connection of a client over its share is open, want it closed")
	}
	expect.NoDiff(t, s.closedConnections(), map[string]int{"share": 1}, "closed connections")
}
