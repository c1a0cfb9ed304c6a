package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tipcache/tipcache/proxy/admin"
	"github.com/tipcache/tipcache/upstream/expect"
)

// start serves a handler whose process is ready unless store is excluded from
// what is asked.
func start(t *testing.T, gatherer prometheus.Gatherer) (*admin.Handler, string) {
	t.Helper()
	h := admin.New(admin.Options{
		Gatherer: gatherer, Version: "v1", Profiles: true,
		Ready: func(_ context.Context, exclude []string) (bool, any) {
			return len(exclude) > 0, map[string]any{"problems": map[string]string{"store": "away"}}
		},
		Calls: map[string]http.HandlerFunc{"POST /admin/purge": func(w http.ResponseWriter, _ *http.Request) { admin.WriteJSON(w, 200, "done") }},
	})
	server := httptest.NewUnstartedServer(h)
	server.Config.RegisterOnShutdown(h.Close)
	server.Start()
	t.Cleanup(func() {
		_ = server.Config.Shutdown(context.WithoutCancel(t.Context()))
		server.Close()
	})
	return h, server.URL
}

func ask(t *testing.T, method, url string, header ...string) (int, http.Header, string) {
	t.Helper()
	req := expect.Value(http.NewRequest(method, url, nil))(t)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp := expect.Value(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	text := expect.Value(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, resp.Header, string(text)
}

func TestWithoutTokenOnlyIPAddressesAreServed(t *testing.T) {
	_, url := start(t, prometheus.NewRegistry())
	tests := []struct {
		name, method, path, host string
		status                   int
	}{
		{"the page under an address", "GET", "/", "127.0.0.1:9090", 200},
		{"under an IPv6 address", "GET", "/", "[::1]:9090", 200},
		{"under localhost", "GET", "/", "localhost:9090", 200},
		{"not under a name that somebody pointed here", "GET", "/", "evil.example:9090", 403},
		{"nor a profile", "GET", "/debug/pprof/heap", "evil.example", 403},
		{"nor a purge", "POST", "/admin/purge", "evil.example", 403},
		{"nor the stream", "GET", "/status/stream", "localhost.evil.example", 403},
		{"but what machines ask", "GET", "/metrics", "tipcache.default.svc", 200},
		{"and whether it lives", "GET", "/healthz", "tipcache.default.svc", 200},
		{"and whether it is ready", "GET", "/readyz?require=store", "tipcache.default.svc", 200},
		{"a purge under an address", "POST", "/admin/purge", "127.0.0.1", 200},
		{"no command line, which may hold keys", "GET", "/debug/pprof/cmdline", "127.0.0.1", 404},
		{"what is not there", "GET", "/nothing", "127.0.0.1", 404},
		{"unready", "GET", "/readyz", "127.0.0.1", 503},
	}
	for _, tt := range tests {
		if status, _, body := ask(t, tt.method, url+tt.path, "Host", tt.host); status != tt.status {
			t.Errorf("%s: %d %s", tt.name, status, body)
		}
	}
}

func TestAllPathsExceptPageRequireToken(t *testing.T) {
	h, url := start(t, prometheus.NewRegistry())
	const token = "a token that is long"
	h.SetToken(token)
	tests := []struct {
		method, path, authorization string
		status                      int
	}{
		{"GET", "/", "", 200},
		{"GET", "/status/status.js", "", 200},
		{"GET", "/status/stream", "", 401},
		{"GET", "/status/", "", 401},
		{"GET", "/debug/pprof/heap", "", 401},
		{"GET", "/debug/pprof/heap", "Bearer another", 401},
		{"GET", "/debug/pprof/heap", token, 401},
		{"GET", "/debug/pprof/symbol", "bearer " + token, 200},
		{"POST", "/admin/purge", "", 401},
		{"POST", "/admin/purge", "Bearer " + token, 200},
	}
	for _, tt := range tests {
		status, header, body := ask(t, tt.method, url+tt.path, "Authorization", tt.authorization, "Host", "admin.example")
		if status != tt.status || status == 401 && header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s with %q: %d %s", tt.method, tt.path, tt.authorization, status, body)
		}
	}
	if status, _, _ := ask(t, "POST", url+"/admin/purge", "Authorization", "Bearer "+token, "Sec-Fetch-Site", "cross-site"); status != 403 {
		t.Errorf("a page of another site may post: %d", status)
	}
}

func TestPageNeedsNoOtherServer(t *testing.T) {
	_, url := start(t, prometheus.NewRegistry())
	_, header, page := ask(t, "GET", url+"/")
	if !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") || !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
		t.Errorf("%v", header)
	}
	if status, _, _ := ask(t, "GET", url+"/", "If-None-Match", header.Get("ETag")); status != 304 {
		t.Errorf("the page again: %d", status)
	}
	for _, link := range []string{"/status/status.css", "/status/theme.js", "/status/status.js", "/status/charts.js", "/status/format.js"} {
		if status, _, text := ask(t, "GET", url+link); status != 200 || strings.Contains(text, "https://") {
			t.Errorf("%s: %d", link, status)
		}
	}
	if strings.Contains(strings.ReplaceAll(page, "http://www.w3.org", ""), "://") {
		t.Error("page names the wrong server")
	}
}

// line is what the page reads of a line of the stream.
type line struct {
	Samples []struct {
		Tip     float64
		Answers map[string]float64
		Hits    *float64
		P50     *float64
		Ahead   map[string]float64
		Behind  []float64

		Connections, RPC, GRPC float64
	}
	Bounds []float64
	Routes []struct {
		Name string
		Hits float64
	}
	State   struct{ Problems map[string]string }
	Version string
	Totals  struct{ Requests float64 }
}

// streamOf opens the stream of samples of a registry. No sample is taken while changing is held.
func streamOf(t *testing.T, registry *prometheus.Registry) (changing *sync.Mutex, lines *bufio.Scanner) {
	t.Helper()
	changing = new(sync.Mutex)
	h, url := start(t, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		changing.Lock()
		defer changing.Unlock()
		return registry.Gather()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go h.Run(ctx)
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url+"/status/stream", nil)
	resp := expect.Value(http.DefaultClient.Do(req))(t)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return changing, bufio.NewScanner(resp.Body)
}

func TestStreamAgreesWithMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tipcache_proxy_requests_total"}, []string{"outcome"})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tipcache_proxy_request_duration_seconds"}, []string{"route", "outcome"})
	behind := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tipcache_proxy_staleness_blocks", Buckets: []float64{0, 1, 5}})
	tip := prometheus.NewGauge(prometheus.GaugeOpts{Name: "tipcache_node_tip_height"})
	ahead := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tipcache_cache_read_ahead_total"}, []string{"result"})
	registry.MustRegister(requests, took, behind, tip, ahead)
	for of, open := range map[string]float64{"http": 7, "rpc": 3, "grpc": 2} {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "tipcache_" + of + "_connections"})
		g.Set(open)
		registry.MustRegister(g)
	}
	changing, lines := streamOf(t, registry)
	first := next(t, lines)
	if len(first.Samples) == 0 || first.Version != "v1" || first.State.Problems["store"] != "away" {
		t.Errorf("the first line is %+v", first)
	}
	changing.Lock()
	tip.Set(1000)
	requests.WithLabelValues("hit").Add(30)
	requests.WithLabelValues("miss").Add(10)
	ahead.WithLabelValues("origin").Add(8)
	took.WithLabelValues("pool", "hit").Observe(.001)
	took.WithLabelValues("pool", "miss").Observe(.1)
	for _, blocks := range []float64{0, 0, 3, 7} {
		behind.Observe(blocks)
	}
	changing.Unlock()
	second := next(t, lines)
	for second.Samples[0].Tip == 0 {
		second = next(t, lines)
	}
	if s := second.Samples[0]; s.Tip != 1000 || s.Answers["hit"] < 3*s.Answers["miss"]-1e-6 || s.Answers["miss"] <= 0 {
		t.Errorf("%+v", s)
	}
	if got := second.Samples[0].Ahead["origin"]; got <= 0 {
		t.Errorf("%v keys a second were read ahead", got)
	}
	if s := second.Samples[0]; s.Connections != 12 || s.RPC != 3 || s.GRPC != 2 {
		t.Errorf("%v connections, %v of the RPC and %v of gRPC", s.Connections, s.RPC, s.GRPC)
	}
	if got := second.Samples[0].Behind; len(got) != 4 || got[0] != 2 || got[1] != 0 || got[2] != 1 || got[3] != 1 || len(second.Bounds) != 3 {
		t.Errorf("blocks behind: %v in %v", got, second.Bounds)
	}
	if second.Totals.Requests != 40 || len(second.Routes) != 1 || second.Routes[0].Name != "pool" || second.Routes[0].Hits != .5 {
		t.Errorf("%+v", second)
	}
}

// next reads a line; samples are two seconds apart.
func next(t *testing.T, lines *bufio.Scanner) (l line) {
	t.Helper()
	if !lines.Scan() {
		t.Fatalf("the stream has ended: %v", lines.Err())
	}
	expect.NoError(t, json.Unmarshal(lines.Bytes(), &l))
	return l
}

func TestStreamsEndWithServer(t *testing.T) {
	h, url := start(t, prometheus.NewRegistry())
	go h.Run(t.Context())
	resp := expect.Value(http.Get(url + "/status/stream"))(t)
	defer resp.Body.Close()
	time.AfterFunc(50*time.Millisecond, h.Close)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("cut off: %v", err)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	h, url := start(t, prometheus.NewRegistry())
	go h.Run(t.Context())
	open := func() *http.Response {
		resp := expect.Value(http.Get(url + "/status/stream"))(t)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	for i := range 32 {
		if resp := open(); resp.StatusCode != http.StatusOK {
			t.Fatalf("status of stream %d = %d, want 200", i+1, resp.StatusCode)
		}
	}
	resp := open()
	if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "too many pages") {
		t.Errorf("stream 33 = %d %s, %v; want 503 with the reason", resp.StatusCode, body, err)
	}
}
