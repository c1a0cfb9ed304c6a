package proxy_test

import (
	"bufio"
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
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A secured is a server whose listener speaks TLS.
type secured struct {
	address  net.Addr
	proxy    *proxy.Server
	chain    *fakeChain
	registry *prometheus.Registry
}

func startSecured(t *testing.T, fast bool, o proxy.Options) *secured {
	t.Helper()
	s := &secured{registry: prometheus.NewRegistry()}
	if fast {
		o.Web.Lane = lane.New(lane.Options{Registerer: s.registry})
	}
	s.proxy, s.chain = newChainProxy(t, o)
	s.address = serveSecurely(t, s.proxy, o.Web.Lane)
	return s
}

// serveSecurely starts a server of TLS whose connections have a lane, nil for none.
func serveSecurely(t *testing.T, h http.Handler, fast web.Lane) net.Addr {
	t.Helper()
	issuer := httptest.NewTLSServer(http.NotFoundHandler())
	defer issuer.Close()
	config := &tls.Config{Certificates: issuer.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	l := expect.Value(listener.Listen(t.Context(), "127.0.0.1:0", listener.Options{Lane: fast, TLS: config, Header: time.Minute}))(t)
	server := &http.Server{
		TLSConfig: config, ConnContext: conn.Context, ConnState: conn.State, ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.TLS == nil || !r.TLS.HandshakeComplete {
				t.Errorf("%s %s by %s without TLS", r.Method, r.URL, r.Proto)
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

// client asks over one connection, by a version of HTTP.
func (s *secured) client(t *testing.T, major int) *secureClient {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxConnsPerHost: 1, DisableCompression: true, ForceAttemptHTTP2: major == 2} //nolint:gosec // of a test
	if major == 1 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &secureClient{&http.Client{Transport: transport}, "https://" + s.address.String()}
}

// told is an answer, without what may differ from one to the next.
func (c *secureClient) told(t *testing.T, method, path string, header http.Header) string {
	t.Helper()
	request := expect.Value(http.NewRequestWithContext(t.Context(), method, c.base+path, nil))(t)
	request.Header, request.Host = header, "any.example"
	res := expect.Value(c.http.Do(request))(t)
	defer res.Body.Close()
	var text strings.Builder
	_ = res.Write(&text)
	return reset.ReplaceAllString(lasting(text.String()), "")
}

// comesThroughTheLane asks until the lane has answered: net/http may be late with the end of a request.
func (s *secured) comesThroughTheLane(t *testing.T, c *secureClient) {
	t.Helper()
	for tries := 0; hitsOf(t, s.registry) == 0; tries++ {
		if c.told(t, http.MethodGet, "/staking/pool", http.Header{}); tries == 1000 {
			t.Fatal("lane served no request")
		}
	}
}

func TestLaneAnswersOverTLSAsTheHandlerDoes(t *testing.T) {
	for name, major := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			without, with := startSecured(t, false, proxy.Options{}), startSecured(t, true, proxy.Options{})
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
					want, got := plain.told(t, request.method, request.path, request.header), fast.told(t, request.method, request.path, request.header)
					expect.NoDiff(t, got, want, "%v with the lane", request)
				}
			}
			with.comesThroughTheLane(t, fast)
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
	var room [12 << 10]byte
	return room[never]
}

// The goroutine of a stream begins with a stack of some 4 KiB, of which net/http and the runtime have half.
// Where that is too little it is copied, for each answer anew: that was a tenth of the CPU.
func TestHitOverHTTP2NeedsLittleStack(t *testing.T) {
	if raced {
		t.Skip("the race detector takes room on stacks")
	}
	s := &secured{registry: prometheus.NewRegistry()}
	fast := lane.New(lane.Options{Registerer: s.registry})
	s.proxy, s.chain = newChainProxy(t, proxy.Options{Web: web.Options{Lane: fast}})
	var handled, looked atomic.Uintptr // where the stack was
	s.address = serveSecurely(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		growStack(0)
		var here byte
		handled.Store(uintptr(unsafe.Pointer(&here)))
		s.proxy.ServeHTTP(w, r)
	}), fast)
	client := s.client(t, 2)
	s.comesThroughTheLane(t, client)
	s.chain.mu.Lock()
	s.chain.looked = func() {
		var here byte
		looked.Store(uintptr(unsafe.Pointer(&here)))
	}
	s.chain.mu.Unlock()
	client.told(t, http.MethodGet, "/staking/pool", http.Header{})
	if deep := handled.Load() - looked.Load(); deep > 2<<10 {
		t.Errorf("between the handler and the tip are %d bytes of stack", deep)
	}
}

// The RPC has the same paths on a listener of its own, which has no lane.
func TestLaneDoesNotAnswerOnTheRPCListener(t *testing.T) {
	for name, major := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			s := startSecured(t, true, proxy.Options{RPC: &rpc.Options{}})
			rest := s.client(t, major)
			s.comesThroughTheLane(t, rest)
			fromREST := rest.told(t, http.MethodGet, "/staking/pool", http.Header{})
			s.address = serveSecurely(t, s.proxy.RPC(), nil)
			if told := s.client(t, major).told(t, http.MethodGet, "/staking/pool", http.Header{}); told == fromREST || !strings.Contains(told, " 404 ") {
				t.Errorf("the RPC has no such path, and answers\n%s", told)
			}
		})
	}
}

func TestPlainHTTPToTLSListenerGetsExplanation(t *testing.T) {
	s := startSecured(t, true, proxy.Options{})
	conn := dial(t, s.address)
	expect.Value(io.WriteString(conn, getPool))(t)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusBadRequest {
		t.Fatalf("%v, %v", res, err)
	}
	body, _ := io.ReadAll(res.Body)
	if want := "Client sent an HTTP request to an HTTPS server.\n"; string(body) != want {
		t.Errorf("%q, want %q", body, want)
	}
}
