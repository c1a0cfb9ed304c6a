package proxy_test

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// tlsService is a server with TLS in front of a fake chain.
type tlsService struct {
	address  net.Addr
	proxy    *proxy.Server
	chain    *fakeChain
	registry *prometheus.Registry
}

func startTLS(t *testing.T, fast bool, o proxy.Options) *tlsService {
	t.Helper()
	s := &tlsService{registry: prometheus.NewRegistry()}
	if fast {
		o.Web.Lane = lane.New(lane.Options{Registerer: s.registry})
	}
	s.proxy, s.chain = newChainProxy(t, o)
	s.address = serveTLS(t, s.proxy, o.Web.Lane)
	return s
}

// serveTLS starts a server with TLS whose connections have a lane; nil means none.
func serveTLS(t *testing.T, h http.Handler, fast web.Lane) net.Addr {
	t.Helper()
	issuer := httptest.NewTLSServer(http.NotFoundHandler())
	defer issuer.Close()
	config := &tls.Config{Certificates: issuer.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	l := expect.Value(conn.Listen(t.Context(), "127.0.0.1:0", conn.Options{Lane: fast, TLS: config, Header: time.Minute}))(t)
	server := &http.Server{
		TLSConfig: config, ConnContext: conn.Context, ConnState: conn.State, ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.TLS == nil || !r.TLS.HandshakeComplete {
				t.Errorf("TLS of %s %s with %s = %v, want a complete handshake", r.Method, r.URL, r.Proto, r.TLS)
			}
			h.ServeHTTP(w, r)
		}),
	}
	ended := make(chan error)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr()
}

// client returns a client with one connection that uses a version of HTTP.
func (s *tlsService) client(t *testing.T, major int) *tlsClient {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxConnsPerHost: 1, DisableCompression: true, ForceAttemptHTTP2: major == 2} //nolint:gosec // of a test
	if major == 1 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &tlsClient{&http.Client{Transport: transport}, "https://" + s.address.String()}
}

// fetch returns a response without varying parts.
func (c *tlsClient) fetch(t *testing.T, method, path string, header http.Header) []string {
	t.Helper()
	request := expect.Value(http.NewRequestWithContext(t.Context(), method, c.base+path, nil))(t)
	request.Header, request.Host = header, "any.example"
	res := expect.Value(c.http.Do(request))(t)
	defer res.Body.Close()
	var text strings.Builder
	_ = res.Write(&text)
	return comparableLines(text.String())
}

// warmLane sends requests until the lane has served one.
func (s *tlsService) warmLane(t *testing.T, c *tlsClient) {
	t.Helper()
	for tries := 0; laneHits(t, s.registry) == 0; tries++ {
		if c.fetch(t, http.MethodGet, "/staking/pool", http.Header{}); tries == 1000 {
			t.Fatal("lane served none of 1000 requests")
		}
	}
}

func TestLaneAnswersOverTLSAsTheHandlerDoes(t *testing.T) {
	for name, major := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			without, with := startTLS(t, false, proxy.Options{}), startTLS(t, true, proxy.Options{})
			plain, fast := without.client(t, major), with.client(t, major)
			for _, request := range []struct {
				method, path string
				header       http.Header
			}{
				{"GET", "/staking/pool", http.Header{}},
				{"GET", "/staking/validators", http.Header{"Accept-Encoding": {"gzip, deflate, br"}, "Origin": {"https://a.example"}}},
				{"GET", "/staking/validators", http.Header{"If-None-Match": {"*"}, "User-Agent": {"a \"browser\""}}},
				{"HEAD", "/staking/validators", http.Header{"X-Request-Id": {"mine"}}},
				{"GET", "/staking/params", http.Header{"X-Block-Height": {"200"}, "Te": {"trailers"}}},
				{"GET", "/no/such/path", http.Header{}},
			} {
				for range 4 {
					want, got := plain.fetch(t, request.method, request.path, request.header), fast.fetch(t, request.method, request.path, request.header)
					expect.NoDiff(t, got, want, "response with the lane to %v", request)
				}
			}
			with.warmLane(t, fast)
		})
	}
}

// Heights and polls in a URL are no part of the path that nodes and caches know.
func TestLaneDistinguishesParametersOfTheURL(t *testing.T) {
	for name, major := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			without, with := startTLS(t, false, proxy.Options{}), startTLS(t, true, proxy.Options{})
			plain, fast := without.client(t, major), with.client(t, major)
			same := func(path string) {
				t.Helper()
				want, got := plain.fetch(t, http.MethodGet, path, http.Header{}), fast.fetch(t, http.MethodGet, path, http.Header{})
				expect.NoDiff(t, got, want, "response with the lane to %s", path)
			}
			for range 4 {
				same("/staking/pool?x-block-height=200")
			}
			same("/staking/pool")
			with.warmLane(t, fast)
			for _, query := range []string{"?x-block-height=200", "?since=0", "?X-Min-Block-Height=1"} {
				same("/staking/pool" + query)
			}
		})
	}
}

// growStack gives the calling goroutine a stack that is large enough.
//
//go:noinline
func growStack(never int) byte {
	if never == 0 {
		return 0
	}
	var buffer [12 << 10]byte
	return buffer[never]
}

// A stream's goroutine begins with a stack of about 4 KiB, and net/http and the runtime use half of it. If a response needs
// more, the runtime copies the stack, which took a tenth of the CPU.
func TestHitOverHTTP2NeedsLittleStack(t *testing.T) {
	if raced {
		t.Skip("the race detector uses more stack")
	}
	s := &tlsService{registry: prometheus.NewRegistry()}
	fast := lane.New(lane.Options{Registerer: s.registry})
	s.proxy, s.chain = newChainProxy(t, proxy.Options{Web: web.Options{Lane: fast}})
	var atHandler, atTip atomic.Uintptr // stack pointers
	s.address = serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		growStack(0)
		var here byte
		atHandler.Store(uintptr(unsafe.Pointer(&here)))
		s.proxy.ServeHTTP(w, r)
	}), fast)
	client := s.client(t, 2)
	s.warmLane(t, client)
	s.chain.change(func(f *fakeChain) {
		f.onTip = func() {
			var here byte
			atTip.Store(uintptr(unsafe.Pointer(&here)))
		}
	})
	client.fetch(t, http.MethodGet, "/staking/pool", http.Header{})
	if used := atHandler.Load() - atTip.Load(); used > 2<<10 {
		t.Errorf("stack between the handler and the tip = %d bytes, want at most 2 KiB", used)
	}
}

// The listener of the RPC has no lane.
func TestLaneDoesNotServeTheRPCListener(t *testing.T) {
	for name, major := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			s := startTLS(t, true, proxy.Options{RPC: &rpc.Options{}})
			rest := s.client(t, major)
			s.warmLane(t, rest)
			s.address = serveTLS(t, s.proxy.RPC(), nil)
			if got := strings.Join(s.client(t, major).fetch(t, http.MethodGet, "/staking/pool", http.Header{}), "\n"); !strings.Contains(got, " 404 ") {
				t.Errorf("response of the RPC to a REST path = %s, want 404", got)
			}
		})
	}
}

func TestLaneSendsEachRateLimitOverHTTP2(t *testing.T) {
	plenty := limits.Rate{Requests: 1e6, Per: time.Hour, Burst: 1e6}
	s := startTLS(t, true, proxy.Options{
		Chain: blocks.Options{Auth: true},
		Web:   web.Options{Keys: []limits.Key{keyOf("one", "1")}, Limits: limits.Limits{Address: plenty, Key: plenty}},
	})
	c := s.client(t, 2)
	for tries := 0; laneHits(t, s.registry) == 0; tries++ {
		if tries == 1000 {
			t.Fatal("lane served none of 1000 requests")
		}
		lines := strings.Join(c.fetch(t, http.MethodGet, "/staking/pool", http.Header{"X-Api-Key": {"1"}}), "\n")
		for _, name := range []string{"Ratelimit", "Ratelimit-Policy"} {
			expect.Equal(t, strings.Count(lines, name+": "), 2, "%s headers of response %d", name, tries)
		}
	}
}
