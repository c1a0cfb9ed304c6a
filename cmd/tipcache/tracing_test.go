package main

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// collector is an OTLP server that keeps the spans of one trace, or of all if
// that is "", by id.
type collector struct {
	*httptest.Server
	trace string
	mu    sync.Mutex
	spans map[string]span
}

type span struct{ name, parent string }

func startCollector(t *testing.T, trace string) *collector {
	c := &collector{trace: trace, spans: map[string]span{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var batch coltrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &batch); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		c.keep(&batch)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) keep(batch *coltrace.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range batch.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				if c.trace == "" || hex.EncodeToString(s.GetTraceId()) == c.trace {
					c.spans[string(s.GetSpanId())] = span{s.GetName(), string(s.GetParentSpanId())}
				}
			}
		}
	}
}

// paths are the names of the spans, each behind those above it.
func (c *collector) paths() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, s := range c.spans {
		path := s.name
		for above, ok := c.spans[s.parent]; ok; above, ok = c.spans[above.parent] {
			path = above.name + " > " + path
		}
		all = append(all, path)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// overhear starts a proxy for a server that records the traces of requests.
func overhear(t *testing.T, target string) (address string, traces func() string) {
	heard := &logtest.Log{}
	s := relay(t, target, func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(heard, r.Header.Get("Traceparent")+"\n")
		next.ServeHTTP(w, r)
	})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s.URL, heard.String
}

func TestTraceReachesUpstreams(t *testing.T) {
	t.Parallel()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	parent := []string{"Traceparent", "00-" + trace + "-b7ad6b7169203331-01"}
	c := startCollector(t, trace)
	var toNode, toProvider func() string
	t.Run("running", func(t *testing.T) { // the spans are sent at its end
		d := newDevnet(t, devnet.Options{Interval: -1})
		nodeURL, nodeTraces := overhear(t, d.NodeURL())
		providerURL, providerTraces := overhear(t, d.MetadataURL())
		toNode, toProvider = nodeTraces, providerTraces
		r := startRunning(t, d, func(cfg *config.Config) {
			cfg.Chain.Nodes, cfg.Metadata.Provider = []string{nodeURL}, "alchemy:"+providerURL+"/nft/v3/key"
			cfg.Tracing = config.Tracing{Endpoint: c.URL, Ratio: 0}
		})
		r.get(r.base+"/staking/params", parent...)
		r.get(r.base+"/staking/params", parent...)
		r.get(r.base + "/auth/params") // of no trace, and the ratio is 0
		r.do(http.MethodPost, r.base+"/api/v4/collections", "{}", append(parent, "X-Api-Key", r.key)...)
	})
	want := []string{
		"collections",
		"collections > cache.flight",
		"collections > cache.flight > collections.list",
		"collections > cache.flight > metadata.batch",
		"collections > cache.flight > redis.acquire",
		"collections > cache.flight > redis.load",
		"collections > cache.flight > redis.settle",
		"collections > redis.load",
		"staking_params",
		"staking_params > cache.flight",
		"staking_params > cache.flight > node.request",
		"staking_params > cache.flight > redis.acquire",
		"staking_params > cache.flight > redis.settle",
		"staking_params > redis.load",
	}
	expect.NoDiff(t, c.paths(), want, "spans")
	for name, heard := range map[string]string{"node": toNode(), "provider": toProvider()} {
		if strings.Count(heard, trace) != 1 {
			t.Errorf("the %s heard of the traces %q", name, heard)
		}
	}
}

func TestIndexingIsTraced(t *testing.T) {
	t.Parallel()
	c := startCollector(t, "")
	t.Run("running", func(t *testing.T) { // the spans are sent at its end
		d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
		r := startRunning(t, d, func(cfg *config.Config) {
			indexing(d, "sqlite::memory:")(cfg)
			cfg.Tracing = config.Tracing{Endpoint: c.URL, Ratio: 1}
		})
		r.eventually("indexed", func() bool { index := r.ready().Index; return index != nil && index.Block > 0 })
	})
	for _, path := range []string{"indexer.fetch > evm.request", "indexer.apply > collections.apply"} {
		if !slices.Contains(c.paths(), path) {
			t.Errorf("no %s in %q", path, c.paths())
		}
	}
}
