package proxy_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// Addresses of the recorded chain.
const (
	val5   = "0x5c8a1d51b8d99f2d7bafd80d19a74003b4e397b0"
	val6   = "0x8ea48a3ed16d9001c7713e2725e9644f28b61d7f"
	del0   = "0x243b338be72573f04688f16dbc05e281517330d0"
	del1   = "0xa82f5d1f204b382d90ca549b695aedb7fde14817"
	nobody = "0x00000000000000000000000000000000000dead1"

	val5Bech32 = "storyvaloper1tj9p65dcmx0j67a0mqx3nf6qqw6w89asd2aep5"
	del0Bech32 = "story1ysan8zl8y4elq35g79kmcp0zs9ghxvxsrujagr"
)

// chainService is a proxy on a socket in front of a fake chain.
type chainService struct {
	*httptest.Server
	proxy *proxy.Server
	chain *fakeChain
}

// newCache returns a cache whose callers wait long enough for a newer entry on a busy machine.
func newCache(tb testing.TB, r prometheus.Registerer) *cache.Cache {
	tb.Helper()
	c := expect.Value(cache.New(cache.Options{Registerer: r, Patience: 20 * time.Second, FlightTimeout: 5 * time.Minute, EncodeAtOnce: true}))(tb)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// newChainProxy returns a proxy with a new cache, unless the options have one.
func newChainProxy(tb testing.TB, o proxy.Options) (*proxy.Server, *fakeChain) {
	tb.Helper()
	if o.Cache == nil {
		o.Cache = newCache(tb, o.Web.Registerer)
	}
	chain := newFakeChain(tb)
	o.Chain.Nodes = chain
	return expect.Value(proxy.New(o))(tb), chain
}

// startChain starts a proxy with a fast lane.
func startChain(t *testing.T, o proxy.Options) *chainService {
	t.Helper()
	o.Web.Lane = lane.New(lane.Options{})
	return serveChain(t, o)
}

// serveChain starts a proxy with the fast lane of the options; nil means none.
func serveChain(t testing.TB, o proxy.Options) *chainService {
	t.Helper()
	p, chain := newChainProxy(t, o)
	return &chainService{Server: startServer(t, p, o.Web.Lane), proxy: p, chain: chain}
}

// exchange is a request and its response.
type exchange struct {
	request string
	status  int
	header  http.Header
	body    string
}

// expect fails the test unless the response has the status, and each part in its body.
func (e exchange) expect(t *testing.T, status int, parts ...string) {
	t.Helper()
	expect.Response(t, e.request, e.status, e.body, status, parts...)
}

// get sends a GET with pairs of header names and values.
func (s *chainService) get(t *testing.T, target string, headers ...string) exchange {
	t.Helper()
	return s.do(t, http.MethodGet, target, "", headers...)
}

func (s *chainService) do(t *testing.T, method, target, body string, headers ...string) exchange {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r := expect.Value(http.NewRequestWithContext(t.Context(), method, s.URL+target, content))(t)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res := expect.Value(s.Client().Do(r))(t)
	defer res.Body.Close()
	text := expect.Value(io.ReadAll(res.Body))(t)
	return exchange{method + " " + target, res.StatusCode, res.Header, string(text)}
}

// expectRefusal fails the test unless the response is a refusal with the body, in the JSON envelope.
func (e exchange) expectRefusal(t *testing.T, status int, want string) {
	t.Helper()
	expect.Equal(t, e.status, status, "status of %s", e.request)
	expect.NoDiff(t, e.body, want, "body of %s", e.request)
	expect.Equal(t, e.header.Get("Content-Type"), "application/json", "Content-Type of %s", e.request)
}

func (e exchange) expectHeader(t *testing.T, header, want string) {
	t.Helper()
	expect.Equal(t, e.header.Get(header), want, "%s of %s", header, e.request)
}

// startServer wraps connections as tipcache serve does. fast may be nil.
func startServer(t testing.TB, h http.Handler, fast web.Lane) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Listener = laneListener{s.Listener, fast}
	s.Config.ConnContext, s.Config.ConnState = conn.Context, conn.State
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// laneListener accepts connections with a lane.
type laneListener struct {
	net.Listener
	lane conn.Lane
}

func (l laneListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn.New(accepted, l.lane, nil, nil), nil
}

// serveOn starts a server whose connections come from a listener with these options.
func serveOn(t *testing.T, h http.Handler, o conn.Options, start func(*httptest.Server)) *httptest.Server {
	t.Helper()
	l := expect.Value(conn.Listen(t.Context(), "127.0.0.1:0", o))(t)
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener, s.Config.ConnContext, s.Config.ConnState, s.Config.WriteTimeout = l, conn.Context, conn.State, time.Minute
	start(s)
	t.Cleanup(s.Close)
	return s
}
