package main

import (
	"encoding/hex"
	"fmt"
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

// A collector is an OTLP server that records the spans of one trace, or of all traces if trace is "".
type collector struct {
	*httptest.Server
	trace string
	mu    sync.Mutex
	spans map[string]span // by id
}

type span struct{ name, parent string }

func startCollector(t *testing.T, trace string) *collector {
	c := &collector{trace: trace, spans: map[string]span{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var batch coltrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &batch); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("request to %s: %v, want spans at /v1/traces", r.URL.Path, err)
		}
		c.record(&batch)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) record(batch *coltrace.ExportTraceServiceRequest) {
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

// paths returns the names of the spans, each after the names of its ancestors.
func (c *collector) paths() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, s := range c.spans {
		path := s.name
		for parent, ok := c.spans[s.parent]; ok; parent, ok = c.spans[parent.parent] {
			path = parent.name + " > " + path
		}
		all = append(all, path)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// recordTraces starts a proxy for a server that records the traces of requests.
func recordTraces(t *testing.T, target string) (address string, traces func() string) {
	log := &logtest.Log{}
	s := relay(t, target, func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(log, r.Header.Get("Traceparent")+"\n")
		next.ServeHTTP(w, r)
	})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s.URL, log.String
}

func TestTraceReachesUpstreams(t *testing.T) {
	t.Parallel()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	parent := []string{"Traceparent", "00-" + trace + "-b7ad6b7169203331-01"}
	c := startCollector(t, trace)
	var toNode, toProvider func() string
	t.Run("running", func(t *testing.T) { // the service sends the spans at its end
		d := newDevnet(t, devnet.Options{Interval: -1})
		nodeURL, nodeTraces := recordTraces(t, d.NodeURL())
		providerURL, providerTraces := recordTraces(t, d.MetadataURL())
		toNode, toProvider = nodeTraces, providerTraces
		r := startRunning(t, d, func(cfg *config.Config) {
			cfg.Chain.Nodes, cfg.Metadata.Provider = []string{nodeURL}, "alchemy:"+providerURL+"/nft/v3/key"
			cfg.Tracing = config.Tracing{Endpoint: c.URL, Ratio: 0}
			cfg.HTTP.TrustedProxies = []string{"127.0.0.1/32"}
		})
		r.get(r.base+"/staking/params", parent...)
		r.get(r.base+"/staking/params", parent...)
		r.get(r.base + "/auth/params") // belongs to no trace, and the ratio is 0
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
	for name, traces := range map[string]string{"node": toNode(), "provider": toProvider()} {
		expect.Equal(t, strings.Count(traces, trace), 1, "requests of the trace to the %s, of %q", name, traces)
	}
}

func TestIndexingIsTraced(t *testing.T) {
	t.Parallel()
	c := startCollector(t, "")
	t.Run("running", func(t *testing.T) { // the service sends the spans at its end
		d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
		r := startRunning(t, d, func(cfg *config.Config) {
			indexing(d, "sqlite::memory:")(cfg)
			cfg.Tracing = config.Tracing{Endpoint: c.URL, Ratio: 1}
		})
		r.eventually("indexed block", func() bool { index := r.ready().Index; return index != nil && index.Block > 0 })
	})
	for _, path := range []string{"indexer.fetch > evm.request", "indexer.apply > collections.apply"} {
		if !slices.Contains(c.paths(), path) {
			t.Errorf("spans = %q, want %s among them", c.paths(), path)
		}
	}
}

func TestCredentialsOfCollectorLeaveOtherHeaders(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Scope-OrgID=team")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	for user, encoded := range map[string]string{
		"tipcache:collector-password": "dGlwY2FjaGU6Y29sbGVjdG9yLXBhc3N3b3Jk", "collector-token": "Y29sbGVjdG9yLXRva2VuOg==",
	} {
		t.Run(user, func(t *testing.T) {
			received := make(chan http.Header, 1)
			refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case received <- r.Header:
				default:
				}
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprint(w, r.Header) // the client repeats it in its error
			}))
			t.Cleanup(refusing.Close) // after serve
			d := newDevnet(t, devnet.Options{Interval: -1})
			s := startServing(t, d, fmt.Sprintf("tracing: {endpoint: %q, ratio: 1}\n", strings.Replace(refusing.URL, "//", "//"+user+"@", 1)))
			s.get(s.base + "/staking/params")
			failure := fmt.Sprint(s.waitForLog("trace spans not sent")["error"])
			got := <-received
			expect.Equal(t, got.Get("Authorization"), "Basic "+encoded, "Authorization at the collector")
			expect.Equal(t, got.Get("X-Scope-OrgID"), "team", "X-Scope-OrgID at the collector")
			expect.Contains(t, failure, "team", "error in the log")
			if strings.Contains(failure, encoded) {
				t.Errorf("error in the log = %s, want no credentials", failure)
			}
		})
	}
}

func TestStrangersDoNotDecideWhatIsTraced(t *testing.T) {
	t.Parallel()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	c := startCollector(t, "")
	t.Run("running", func(t *testing.T) { // the service sends the spans at its end
		r := startRunning(t, newDevnet(t, devnet.Options{Interval: -1}), func(cfg *config.Config) {
			cfg.Tracing = config.Tracing{Endpoint: c.URL, Ratio: 0}
		})
		r.get(r.base+"/staking/params", "Traceparent", "00-"+trace+"-b7ad6b7169203331-01").expectStatus(t, http.StatusOK)
	})
	if got := c.paths(); slices.Contains(got, "staking_params") {
		t.Errorf("spans = %q, want none of the request", got)
	}
}

func TestInvalidVariablesOfOpenTelemetryAreLoggedWithoutTheirValues(t *testing.T) {
	t.Parallel()
	serve := []string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--node", "none", "--store", "sqlite::memory:", "--collections-auth", "none"}
	traced := "TIPCACHE_TRACING_ENDPOINT=http://127.0.0.1:1"
	check := func(p *program, want ...string) {
		text := p.output.String()
		records(t, text)
		for _, part := range want {
			expect.Contains(t, text, part, "log")
		}
		if strings.Contains(text, "secret") {
			t.Errorf("log = %s, want no values of variables", text)
		}
	}
	p := startProgram(t, []string{
		traced,
		"OTEL_EXPORTER_OTLP_HEADERS=Authorization Bearer secret-1,Authorization=secret-2%zz,secret 3=x",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS=secret-4",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://user:secret-5@127.0.0.1:port",
		"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=secret-6",
		"OTEL_TRACES_SAMPLER=unknown",
		"OTEL_RESOURCE_ATTRIBUTES=a=secret-8%zz",
	}, serve...)
	p.admin() // listens
	p.kill()
	check(p, "parse headers", "escape header value", "parse url", "parse duration", "unsupported sampler", "invalid URL escape")
	p = startProgram(t, []string{traced, "OTEL_RESOURCE_ATTRIBUTES=secret-9"}, serve...)
	p.waitForEnd()
	check(p, "OTEL_RESOURCE_ATTRIBUTES: expected NAME=VALUE")
}
