package lane_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// A product is the whole proxy on wires, with a fake chain and a fake store. Their responses contain a version.
type product struct {
	*wires
	proxy *proxy.Server
	cache *cache.Cache
	world world
	log   lockedBuffer // access log

	changed, forgotten bool // since the last script
}

// ages keep all entries fresh during a test. Only a purge changes a response.
var ages = cache.Policy{
	FreshBlocks: 1 << 40, StaleBlocks: 1 << 40, ErrorBlocks: 1 << 40,
	Fresh: 1000 * time.Hour, Stale: 1000 * time.Hour, StaleIfError: 1000 * time.Hour,
}

const productKey = "a key"

func startProduct(tb testing.TB, fast web.Lane) *product {
	tb.Helper()
	return startTracedProduct(tb, fast, nil, 0)
}

func startTracedProduct(tb testing.TB, fast web.Lane, tracing trace.TracerProvider, ratio float64) *product {
	tb.Helper()
	p := &product{}
	p.world.set(1, 228, 0)
	var err error
	if p.cache, err = cache.New(cache.Options{}); err != nil {
		tb.Fatal(err)
	}
	p.proxy = expect.Value(proxy.New(proxy.Options{
		Cache: p.cache,
		Chain: blocks.Options{Nodes: &p.world, Classes: blocks.Classes{Live: ages, Params: ages, Pinned: ages, Negative: 1000 * time.Hour}}, Story: story.Options{Shape: story.Node},
		Collections: &listing.Options{Store: &p.world, Policy: ages},
		Web:         web.Options{Record: record.Options{Tracing: tracing, TraceRatio: ratio, AccessLog: &p.log}, Lane: fast, PublicURL: "https://x", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))},
	}))(tb)
	p.admit(true, true)
	p.wires = newWires(func(c net.Conn) net.Conn { return conn.New(c, fast, nil, nil) })
	server := &http.Server{
		Handler: p.proxy, MaxHeaderBytes: 8 << 10, ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: conn.Context, ConnState: conn.State,
	}
	go server.Serve(p.wires)
	tb.Cleanup(func() {
		server.Close()
		p.cache.Close()
	})
	return p
}

// admit sets whether the key is valid and whether the limits suffice.
func (p *product) admit(known, suffices bool) {
	var keys []limits.Key
	if known {
		keys = []limits.Key{{Name: "tester", SHA256: sha256.Sum256([]byte(productKey))}}
	}
	p.proxy.SetKeys(keys)
	rate := limits.Rate{Requests: 2, Per: 1000 * time.Hour, Burst: 2}
	if suffices {
		rate = limits.Rate{Requests: 1e6, Per: time.Second, Burst: 1e6}
	}
	p.proxy.SetLimits(limits.Limits{Address: limits.Rate{Requests: 1e6, Per: time.Second, Burst: 1e6}, Key: rate})
}

// renew purges the cache and sets another version.
func (p *product) renew(version int64) {
	_, height, epoch := p.world.now()
	p.world.set(version, height, epoch)
	_, _ = p.cache.PurgeKeys(context.Background(), cache.Selection{})
}

// rollBack starts a new generation of the chain, ten blocks lower.
func (p *product) rollBack() {
	version, height, epoch := p.world.now()
	p.world.set(version+1, height-10, epoch+1)
	p.cache.SetNamespace(fmt.Sprint("story-", epoch+1))
	p.proxy.Forget()
}

// A world is a fake chain and a fake store of collections.
type world struct {
	mu      sync.Mutex
	version int64
	tip     node.Tip
}

// HashOf returns a hash that depends on the generation.
func (w *world) HashOf(height int64) string {
	_, _, epoch := w.now()
	return fmt.Sprintf("%08X%08X", epoch, height)
}

func (w *world) Replaced(height int64, prefix string) bool {
	return !strings.HasPrefix(w.HashOf(height), prefix)
}

func (w *world) set(version, height, epoch int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version = version
	w.tip = node.Tip{Height: height, Epoch: epoch, Known: true, Since: time.Now(), Interval: 2 * time.Second}
}

func (w *world) now() (version, height, epoch int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.version, w.tip.Height, w.tip.Epoch
}

func (w *world) Fetch(_ context.Context, r node.Request) (*node.Answer, error) {
	version, height, epoch := w.now()
	if r.Height != node.AtTip {
		height = r.Height
	}
	a := &node.Answer{Status: http.StatusOK, NodeStatus: http.StatusOK, Type: "application/json", Height: height}
	fill := ""
	switch r.Path {
	case "/staking/pool":
	case "/staking/params":
		fill = strings.Repeat("x", 10<<10)
	default:
		return &node.Answer{Status: 404, NodeStatus: 404, Body: []byte("404 page not found\n"), Text: "404 page not found", Reason: node.NotFound, Height: height}, nil
	}
	a.Body = fmt.Appendf(nil, `{"code":200,"msg":{"version":"%d.%d","fill":%q},"error":""}`, epoch, version, fill)
	return a, nil
}

func (w *world) Tip() node.Tip {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tip
}

func (w *world) ChainID() string                         { return "story-1" }
func (w *world) Moved() <-chan struct{}                  { return nil }
func (w *world) WaitHeight(context.Context, int64) error { return context.DeadlineExceeded }
func (w *world) Executed(context.Context, string, int64, int64) (since, newest int64, err error) {
	return 0, 0, node.ErrNoExecution
}
func (w *world) Raise(int64)                         {}
func (w *world) Expected(node.Request) time.Duration { return 0 }

func (w *world) List(context.Context, collections.Query) (collections.Page, error) {
	version, _, _ := w.now()
	return collections.Page{Items: []collections.Collection{{Address: "0x1514000000000000000000000000000000000000", AssetCount: version}}, Total: 1}, nil
}

// lockedBuffer is a buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.Write(p)
}

// take returns the contents and empties the buffer.
func (b *lockedBuffer) take() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.lines.Reset()
	return bytes.Clone(b.lines.Bytes())
}

func TestDateOfALaneResponseIsTheTimeItWasSent(t *testing.T) {
	p := startProduct(t, newLane())
	learn(p, getPool+"\r\n")
	for range 12 { // over the end of a second
		start := time.Now().Truncate(time.Second)
		w := p.dial()
		w.send([]byte(getPool + "\r\n"))
		w.settle()
		head := expect.Value(http.ReadResponse(bufio.NewReader(strings.NewReader(w.output())), nil))(t)
		_ = head.Body.Close()
		if date, err := http.ParseTime(head.Header.Get("Date")); err != nil || date.Before(start) || date.After(time.Now()) {
			t.Errorf("Date = %q, %v; want a time since %v", head.Header.Get("Date"), err, start)
		}
		w.end()
		w.waitClosed()
		time.Sleep(100 * time.Millisecond)
	}
}

func TestLaneAnswersKnownRequestsOfTheProduct(t *testing.T) {
	registry := prometheus.NewRegistry()
	p := startProduct(t, lane.New(lane.Options{IdleTimeout: time.Minute, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute, Registerer: registry}))
	requests := []string{getPool + "\r\n", "HEAD /staking/params HTTP/1.1\r\nHost: x\r\n\r\n", keyed + "Content-Length: 2\r\n\r\n{}"}
	learn(p, requests...) // fills the cache
	learn(p, requests...)
	answered := func() float64 {
		return expect.Metric(t, registry, "tipcache_proxy_fast_lane_requests_total", "answered")
	}
	before := answered()
	for _, request := range requests {
		w := p.dial()
		w.send([]byte(request))
		w.settle()
		w.end()
		if got := string(w.waitClosed()); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
			t.Errorf("response to %q = %.100q, want 200", request, got)
		}
	}
	expect.Equal(t, answered()-before, 3, "requests answered by the lane")
}
