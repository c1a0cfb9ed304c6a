package grpc_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	google "google.golang.org/grpc"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

// twoNodes returns a pool of two nodes that answer as n does.
func twoNodes(t testing.TB, n *recordedNode) *node.Pool {
	t.Helper()
	one := node.Endpoint{REST: n.rest.URL, Comet: n.rpc.URL, GRPC: n.addr}
	pool := nodetest.Run(t, node.Options{Endpoints: []node.Endpoint{one, one}}, 746)
	expect.Eventually(t, "both nodes' gRPC is connected", func() bool {
		return !slices.ContainsFunc(pool.Health(), func(h node.Health) bool { return h.GRPC != "ok" || h.Unseen })
	})
	return pool
}

// largestMessage is the largest message that the servers accept, in bytes.
const largestMessage = 10 << 20

// servers are the servers of all APIs of a proxy.
type servers struct {
	addr    string // of the gRPC server
	handler *grpc.Handler
	server  *google.Server
	rpc     *httptest.Server
	web     *httptest.Server
	metrics *prometheus.Registry
	stack   *web.Stack
	cache   *cache.Cache
	pool    *node.Pool
}

// A setup holds the options that a test may change before the servers start.
type setup struct {
	web      web.Options
	blocks   blocks.Options
	listener conn.Options
	grpc     grpc.Options
	cache    cache.Options
}

// open starts the servers of a node's RPC and, if withGRPC is true, of its gRPC.
func open(t testing.TB, n *recordedNode, withGRPC bool, changes ...func(*setup)) *servers {
	t.Helper()
	d := &servers{metrics: prometheus.NewRegistry()}
	o := grpc.Options{State: state.Options{GRPC: withGRPC, Rows: dialect.MethodRows(cosmos.Rows(nil))}, Posting: blocks.NewPosting(blocks.Posts{MaxBody: largestMessage})}
	if withGRPC {
		d.pool = n.pool(t, n.addr)
		o.Stream = d.pool.Stream
		expect.Eventually(t, "the node's gRPC is connected", func() bool { // a stream fails before
			h := d.pool.Health()[0]
			return h.GRPC == "ok" && !h.Unseen
		})
	} else {
		d.pool = n.pool(t, "")
	}
	s := setup{web.Options{Registerer: d.metrics}, blocks.Options{Nodes: d.pool}, conn.Options{Settings: conn.Settings{Most: 100}}, o, cache.Options{Registerer: d.metrics}}
	for _, change := range changes {
		change(&s)
	}
	d.cache = expect.Value(cache.New(s.cache))(t)
	t.Cleanup(func() { _ = d.cache.Close() })
	d.stack = web.New(s.web, d.cache)
	newReader := func() *blocks.Reader {
		r := expect.Value(blocks.New(s.blocks, d.stack, d.cache))(t)
		expect.NoError(t, r.SetClasses(blocks.Classes{Negative: time.Hour}, nil)) // no error expires during a test
		return r
	}
	d.handler = grpc.New(s.grpc, newReader())
	d.addr, d.server = d.serve(t, s.listener)
	d.rpc = httptest.NewServer(rpc.New(rpc.Options{State: o.State, Posting: o.Posting}, newReader()))
	t.Cleanup(d.rpc.Close)
	engine := d.stack.NewEngine(nil, func(*web.Request) web.Route { return web.Route{Whole: d.handler.ServeWeb} })
	d.web = httptest.NewServer(engine.Handler())
	t.Cleanup(d.web.Close)
	return d
}

// serve serves the handler on a new address.
func (d *servers) serve(t testing.TB, o conn.Options) (addr string, server *google.Server) {
	t.Helper()
	l := expect.Value(conn.Listen(t.Context(), "127.0.0.1:0", o))(t)
	server = d.handler.NewServer(5*time.Second, time.Minute)
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); served.Wait() })
	return l.Addr().String(), server
}

// frames returns the frames of messages in hexadecimal.
func frames(messages ...string) (b []byte) {
	for _, m := range messages {
		message, _ := hex.DecodeString(m)
		b = append(b, framed(0, message)...)
	}
	return b
}

// send repeats a recorded request.
func (x exchange) send(t testing.TB, base string) (resp *http.Response, body []byte) {
	t.Helper()
	sent := frames(x.Message)
	if x.Raw != nil {
		sent, _ = hex.DecodeString(*x.Raw)
	}
	method := http.MethodPost
	if x.Web {
		sent, _ = hex.DecodeString(x.Body)
		method = x.Method
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	r := expect.Value(http.NewRequestWithContext(ctx, method, base+x.Path, io.NopCloser(bytes.NewReader(sent))))(t) // gRPC sends no length
	if !x.Web {
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("Te", "trailers")
	}
	for name, values := range x.Metadata {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(!x.Web)
	protocols.SetHTTP1(x.Web)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true}
	defer transport.CloseIdleConnections()
	resp = expect.Value(transport.RoundTrip(r))(t)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil && !x.Web && resp.Trailer == nil {
		t.Fatal(err)
	}
	return resp, body
}

// compare fails the test if a response differs from the recorded one.
func (x exchange) compare(t *testing.T, resp *http.Response, body []byte) {
	t.Helper()
	want := frames(x.Messages...)
	if x.Web {
		want, _ = hex.DecodeString(x.Answer)
	}
	if resp.StatusCode != x.Status || !bytes.Equal(body, want) {
		t.Errorf("response = %d %x\nwant       %d %x", resp.StatusCode, body, x.Status, want)
	}
	for name, value := range x.Headers {
		if got := resp.Header.Get(name); got != value && !slices.Contains(notCompared, name) {
			t.Errorf("header %s = %q, want %q", name, got, value)
		}
	}
	if x.Headers["x-cosmos-block-height"] == "" && resp.Header.Get("X-Cosmos-Block-Height") != "" {
		t.Errorf("headers = %v, want no height", resp.Header)
	}
	for name, value := range x.Trailers {
		expect.Equal(t, resp.Trailer.Get(name), value, "trailer %s", name)
	}
	if len(x.Trailers) == 0 && !x.Web && resp.Trailer.Get("Grpc-Status") != "" {
		t.Errorf("trailers = %v, want none", resp.Trailer)
	}
}

// notCompared are headers of gRPC-Web that name more here than at the node.
var notCompared = []string{"vary", "access-control-expose-headers"}

// deviations are the recordings whose response differs from the node's, with the reason.
var deviations = map[string]string{
	"grpc_balance_twice_equal":    "a repeated height is refused",
	"grpc_health":                 "the proxy answers health checks itself",
	"grpc_truncated":              "the library responds with INTERNAL",
	"grpcweb_preflight":           "the proxy answers preflights itself",
	"pruned_grpc_getblock_pinned": "it was recorded on another chain",
	"restart_grpc_gettx":          "the proxy calls the RPC, which knows the newest block",
	"restart_grpc_latest":         "the proxy reads at the newest block",
}

// needsGRPC reports whether only a node with gRPC answers a recording as recorded.
func needsGRPC(name string) bool {
	return slices.Contains([]string{"grpc_case"}, name) || strings.Contains(name, "reflection")
}

func TestRecordedExchangesAreAnsweredAsByTheNode(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true, func(s *setup) { s.blocks.Nodes = twoNodes(t, n) })
	for _, x := range nodetest.Recorded[exchange](t, "testdata/exchanges.jsonl") {
		t.Run(x.Name, func(t *testing.T) {
			base := "http://" + d.addr
			if x.Web {
				base = d.web.URL
			}
			before := n.requests("gRPC " + x.Path)
			resp, body := x.send(t, base)
			if failed := expect.Metric(t, d.metrics, "tipcache_proxy_requests_total", "server"); failed > 0 {
				t.Errorf("%g requests count as failures of the server, want none", failed)
			}
			if asked := n.requests("gRPC "+x.Path) - before; asked > 1 && strings.HasPrefix(x.Name, "refused_") {
				t.Errorf("requests to nodes = %d, want 1", asked)
			}
			if _, deviates := deviations[x.Name]; !deviates {
				x.compare(t, resp, body)
			}
		})
	}
}

func TestRPCOnlyNodeAnswersRecordedGRPCExchanges(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, false)
	compared := 0
	for _, x := range nodetest.Recorded[exchange](t, "testdata/exchanges.jsonl") {
		_, recorded := n.byRPC[callKey(x.Path, x.Message, x.Metadata["x-cosmos-block-height"]...)]
		_, deviates := deviations[x.Name]
		if x.Web || !recorded || deviates || needsGRPC(x.Name) {
			continue
		}
		compared++
		t.Run(x.Name, func(t *testing.T) {
			resp, body := x.send(t, "http://"+d.addr)
			x.compare(t, resp, body)
		})
	}
	if compared < 10 {
		t.Errorf("exchanges recorded by both gRPC and RPC = %d, want at least 10", compared)
	}
}
