package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// unreadService answers each path with another large body.
type unreadService struct {
	*httptest.Server
	memory   *account.Account
	registry *prometheus.Registry
	repeats  int // how often a response is read before it is left unread
}

// unreadText is the length of a body, which exceeds the socket buffers.
const unreadText = 16 << 20

func startUnreadService(t *testing.T, memory int64, fast web.Lane, start func(*httptest.Server)) *unreadService {
	t.Helper()
	p, nodes := newChainProxy(t, proxy.Options{Chain: story.Options{Shape: story.Node}, Web: web.Options{Lane: fast}})
	nodes.answerWith(func(r node.Request) (*node.Answer, error) {
		text := `"` + strings.Repeat(r.Path[len(r.Path)-1:], unreadText) + `"`
		return &node.Answer{Status: http.StatusOK, NodeStatus: http.StatusOK, Type: respond.JSON, Height: standstill, Body: []byte(text)}, nil
	})
	s := &unreadService{memory: account.New(memory, nil), registry: prometheus.NewPedanticRegistry()}
	s.Server = serveOn(t, p, listener.Options{Lane: fast, Memory: s.memory, Metrics: s.registry}, start)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		expect.Equal(t, s.memory.Used(), 0, "bytes reserved at the end")
	})
	return s
}

// ask sends a request on a new connection with a small receive buffer, and does not read the body. Before, it reads the
// response s.repeats times on another connection.
func (s *unreadService) ask(t *testing.T, path string) (unread io.Reader) {
	t.Helper()
	get := func(by *http.Client) io.Reader {
		res := expect.Value(by.Get(s.URL + path))(t)
		t.Cleanup(func() { _ = res.Body.Close() })
		return res.Body
	}
	own := s.Client().Transport.(*http.Transport).Clone() //nolint:forcetypeassert // httptest's
	own.DisableCompression = true
	for range s.repeats {
		_, _ = io.Copy(io.Discard, get(&http.Client{Transport: own}))
	}
	own.CloseIdleConnections()
	own.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			_ = c.(*net.TCPConn).SetReadBuffer(64 << 10) //nolint:forcetypeassert // of that network
		}
		return c, err
	}
	t.Cleanup(own.CloseIdleConnections)
	return get(&http.Client{Transport: own})
}

// waitReserved waits until about the given number of bytes is reserved.
func (s *unreadService) waitReserved(t *testing.T, bytes int64) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("about %d reserved bytes", bytes), func() bool {
		used := s.memory.Used()
		return used >= bytes && used <= bytes+bytes/4
	})
}

// Responses that clients have not read reserve memory, once for each body. If memory is short, the connection that has
// been stalled longest is closed.
func TestUnreadResponsesReserveMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		lane    web.Lane
		start   func(*httptest.Server)
		repeats int
	}{
		"by net/http": {nil, (*httptest.Server).Start, 0},
		"in the lane": {lane.New(lane.Options{}), (*httptest.Server).Start, 3},
		"over TLS":    {nil, (*httptest.Server).StartTLS, 0},
		"over HTTP/2": {nil, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startUnreadService(t, 3*unreadText, tt.lane, tt.start)
			s.repeats = tt.repeats
			first := s.ask(t, "/staking/validators/a")
			s.waitReserved(t, unreadText)
			s.ask(t, "/staking/validators/a")
			s.ask(t, "/staking/validators/b")
			s.waitReserved(t, 2*unreadText)
			s.ask(t, "/staking/validators/c") // three bodies exceed the limit with other reservations
			expect.Eventually(t, "a connection closed because of memory", func() bool {
				return expect.Metric(t, s.registry, "tipcache_http_connections_closed_total", "memory") > 0 && s.memory.Limit()-s.memory.Used() < unreadText
			})
			if _, err := io.Copy(io.Discard, first); err == nil {
				t.Error("longest stalled connection still open, want it closed")
			}
		})
	}
}
