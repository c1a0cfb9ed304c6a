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

// An unreadService answers each path with a large text of its own.
type unreadService struct {
	*httptest.Server
	memory   *account.Account
	registry *prometheus.Registry
	repeats  int // of a request on its connection, before the one whose answer is not read
}

// unreadText is more than the kernel holds of an answer that is not read.
const unreadText = 16 << 20

func startUnread(t *testing.T, memory int64, fast web.Lane, start func(*httptest.Server)) *unreadService {
	t.Helper()
	p, nodes := newChainProxy(t, proxy.Options{Chain: story.Options{Shape: story.Node}, Web: web.Options{Lane: fast}})
	nodes.does(func(r node.Request) (*node.Answer, error) {
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

// ask asks on a connection of its own, for which the kernel keeps little, and reads no text. What is
// to be repeated is read by others before.
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

// settled returns once so many bytes are set aside, or about that.
func (s *unreadService) settled(t *testing.T, bytes int64) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("about %d bytes are set aside", bytes), func() bool {
		taken := s.memory.Used()
		return taken >= bytes && taken <= bytes+bytes/4
	})
}

// What clients have not read takes memory, one text once; where there is too little the longest
// stalled client makes room.
func TestUnreadAnswersReserveMemory(t *testing.T) {
	fast := func() web.Lane { return lane.New(lane.Options{}) }
	for name, tt := range map[string]struct {
		lane    web.Lane
		start   func(*httptest.Server)
		repeats int
	}{
		"by net/http": {nil, (*httptest.Server).Start, 0},
		"in the lane": {fast(), (*httptest.Server).Start, 3},
		"over TLS":    {nil, (*httptest.Server).StartTLS, 0},
		"over HTTP/2": {nil, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startUnread(t, 3*unreadText, tt.lane, tt.start)
			s.repeats = tt.repeats
			first := s.ask(t, "/staking/validators/a")
			s.settled(t, unreadText)
			s.ask(t, "/staking/validators/a")
			s.ask(t, "/staking/validators/b")
			s.settled(t, 2*unreadText)
			s.ask(t, "/staking/validators/c") // with what is allocated beside, there is no room for three
			expect.Eventually(t, "a client that does not read makes room", func() bool {
				closed := strings.Join(counted(t, s.registry, "tipcache_http_connections_closed_total"), "\n")
				return !strings.Contains(closed, `cause:"memory" 0`) && s.memory.Limit()-s.memory.Used() < unreadText
			})
			if _, err := io.Copy(io.Discard, first); err == nil {
				t.Error("longest stalled connection still open, want it closed")
			}
		})
	}
}
