package grpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	google "google.golang.org/grpc"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

// largestMessage is the largest message that the servers take, in bytes.
const largestMessage = 10 << 20

// A bench has the servers before a node.
type servers struct {
	addr    string // of gRPC
	handler *grpc.Handler
	server  *google.Server // that serves addr
	rpc     *httptest.Server
	web     *httptest.Server
	metrics *prometheus.Registry
	stack   *web.Stack
	cache   *cache.Cache
	pool    *node.Pool
}

// A setup is what a test may change before the servers start.
type setup struct {
	web      web.Options
	blocks   blocks.Options
	listener listener.Options
	grpc     grpc.Options
	cache    cache.Options
}

// open starts the servers, before the node's RPC alone or its gRPC too.
func open(t testing.TB, n *recordedNode, withGRPC bool, changes ...func(*setup)) *servers {
	t.Helper()
	d := &servers{metrics: prometheus.NewRegistry()}
	o := grpc.Options{State: state.Options{GRPC: withGRPC, Rows: dialect.MethodRows(cosmos.Rows(nil))}, Posting: blocks.NewPosting(blocks.Posts{MaxBody: largestMessage})}
	if withGRPC {
		d.pool = n.pool(t, n.addr)
		o.Stream = d.pool.Stream
		awaitGRPC(t, d.pool)
	} else {
		d.pool = n.pool(t, "")
	}
	with := setup{web.Options{Registerer: d.metrics}, blocks.Options{Nodes: d.pool}, listener.Options{Most: 100}, o, cache.Options{Registerer: d.metrics}}
	for _, change := range changes {
		change(&with)
	}
	c := expect.Value(cache.New(with.cache))(t)
	d.cache = c
	t.Cleanup(func() { _ = c.Close() })
	stack := web.New(with.web, c)
	d.stack = stack
	newReader := func() *blocks.Reader {
		r := expect.Value(blocks.New(with.blocks, stack, c))(t)
		return r
	}
	d.handler = grpc.New(with.grpc, newReader())
	d.addr, d.server = d.serve(t, with.listener)
	d.rpc = httptest.NewServer(rpc.New(rpc.Options{State: o.State}, newReader()))
	t.Cleanup(d.rpc.Close)
	engine := stack.NewEngine(nil, func(c *gin.Context) {
		d.handler.ServeWeb(c.Writer, c.Request)
		c.Abort()
	})
	d.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { stack.Serve(engine, w, r) }))
	t.Cleanup(d.web.Close)
	return d
}

// serve serves the handler on one more address.
func (d *servers) serve(t testing.TB, o listener.Options) (addr string, server *google.Server) {
	t.Helper()
	l := expect.Value(listener.Listen(t.Context(), "127.0.0.1:0", o))(t)
	server = d.handler.NewServer(5*time.Second, time.Minute)
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); served.Wait() })
	return l.Addr().String(), server
}

func awaitGRPC(t testing.TB, pool *node.Pool) {
	t.Helper()
	for h := pool.Health()[0]; h.GRPC != "ok" || h.Unseen; h = pool.Health()[0] { // streams begin at once or fail
		time.Sleep(5 * time.Millisecond)
		if t.Context().Err() != nil {
			t.Fatal("node's gRPC got no request")
		}
	}
}

func frames(messages ...string) (b []byte) {
	for _, m := range messages {
		message, _ := hex.DecodeString(m)
		b = append(binary.BigEndian.AppendUint32(append(b, 0), uint32(len(message))), message...)
	}
	return b
}

// send makes a recorded request, as it was made.
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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, base+x.Path, io.NopCloser(bytes.NewReader(sent))) // of unknown length, as of gRPC
	expect.NoError(t, err)
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
	if resp, err = transport.RoundTrip(r); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil && !x.Web && resp.Trailer == nil {
		t.Fatal(err)
	}
	return resp, body
}

// compare says where an answer differs from the recorded one.
func (x exchange) compare(t *testing.T, resp *http.Response, body []byte) {
	t.Helper()
	want := frames(x.Messages...)
	if x.Web {
		want, _ = hex.DecodeString(x.Answer)
	}
	if resp.StatusCode != x.Status || !bytes.Equal(body, want) {
		t.Errorf("status %d, body %x\nwant   %d, body %x", resp.StatusCode, body, x.Status, want)
	}
	for name, value := range x.Headers {
		if got := resp.Header.Get(name); got != value && !slices.Contains(notCompared, name) {
			t.Errorf("header %s is %q, want %q", name, got, value)
		}
	}
	if x.Headers["x-cosmos-block-height"] == "" && resp.Header.Get("X-Cosmos-Block-Height") != "" {
		t.Errorf("a height is told: %v", resp.Header)
	}
	for name, value := range x.Trailers {
		expect.Equal(t, resp.Trailer.Get(name), value, "trailer %s", name)
	}
	if len(x.Trailers) == 0 && !x.Web && resp.Trailer.Get("Grpc-Status") != "" {
		t.Errorf("there are trailers: %v", resp.Trailer)
	}
}

// notCompared are headers of gRPC-Web that say more here than at the node.
var notCompared = []string{"vary", "access-control-expose-headers"}

// otherwise are the recordings that are answered otherwise than by the node, and why.
var otherwise = map[string]string{
	"grpc_balance_twice_equal":    "a height that comes twice is refused",
	"grpc_truncated":              "the library says INTERNAL",
	"grpcweb_preflight":           "preflights are answered",
	"pruned_grpc_getblock_pinned": "that is of another chain",
	"restart_grpc_gettx":          "the RPC is asked, which knows the newest block",
	"restart_grpc_latest":         "it is read at the newest block",
}

// ownWords are those that are answered otherwise where no node offers gRPC: they are no method
// of the RPC, or the RPC was not recorded.
func ownWords(name string) bool {
	return slices.Contains([]string{"grpc_case", "grpc_health"}, name) || strings.Contains(name, "reflection")
}

func TestRecordedExchangesAreAnsweredAsByTheNode(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true)
	for _, x := range nodetest.Recorded[exchange](t, "testdata/exchanges.jsonl") {
		t.Run(x.Name, func(t *testing.T) {
			base := "http://" + d.addr
			if x.Web {
				base = d.web.URL
			}
			resp, body := x.send(t, base)
			if _, differs := otherwise[x.Name]; !differs {
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
		if x.Web {
			continue
		}
		if _, recorded := n.byRPC[meaning(x.Path, x.Message, x.Metadata["x-cosmos-block-height"])]; !recorded || ownWords(x.Name) {
			continue
		}
		if _, differs := otherwise[x.Name]; differs {
			continue
		}
		compared++
		t.Run(x.Name, func(t *testing.T) {
			resp, body := x.send(t, "http://"+d.addr)
			x.compare(t, resp, body)
		})
	}
	if compared < 10 {
		t.Errorf("%d exchanges were recorded by both", compared)
	}
}
