package admin_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy/admin"
	"github.com/tipcache/tipcache/upstream/expect"
)

// newHandler returns a handler of a process that is ready only if checks are excluded.
func newHandler(gatherer prometheus.Gatherer) *admin.Handler {
	return admin.New(admin.Options{
		Gatherer: gatherer, Version: "v1", Profiles: true,
		Ready: func(_ context.Context, exclude []string) (bool, any) {
			return len(exclude) > 0, map[string]any{"problems": map[string]string{"store": "away"}}
		},
		Calls: map[string]http.HandlerFunc{"POST /admin/purge": func(w http.ResponseWriter, _ *http.Request) { admin.WriteJSON(w, 200, "done") }},
	})
}

// start serves a new handler.
func start(t *testing.T) (*admin.Handler, string) {
	t.Helper()
	h := newHandler(prometheus.NewRegistry())
	return h, "http://" + serve(t, h)
}

// serve serves a handler at the returned address.
func serve(t *testing.T, h *admin.Handler) string {
	t.Helper()
	l := expect.Value(admin.Listen(t.Context(), "127.0.0.1:0", slog.New(slog.DiscardHandler)))(t)
	server, done := h.NewServer(nil), make(chan struct{})
	go func() {
		_ = server.Serve(l)
		close(done)
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		h.Close()
		_ = server.Close()
		<-done
	})
	return l.Addr().String()
}

// request sends a request with pairs of header names and values.
func request(t *testing.T, method, url string, header ...string) (int, http.Header, string) {
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
	_, url := start(t)
	tests := []struct {
		name, method, path, host string
		status                   int
	}{
		{"the page by an IPv4 address", "GET", "/", "127.0.0.1:9090", 200},
		{"the page by an IPv6 address", "GET", "/", "[::1]:9090", 200},
		{"the page by localhost", "GET", "/", "localhost:9090", 200},
		{"the page by another name", "GET", "/", "evil.example:9090", 403},
		{"a profile by another name", "GET", "/debug/pprof/heap", "evil.example", 403},
		{"a purge by another name", "POST", "/admin/purge", "evil.example", 403},
		{"the stream by another name", "GET", "/status/stream", "localhost.evil.example", 403},
		{"metrics by another name", "GET", "/metrics", "tipcache.default.svc", 200},
		{"liveness by another name", "GET", "/healthz", "tipcache.default.svc", 200},
		{"readiness by another name", "GET", "/readyz?require=store", "tipcache.default.svc", 200},
		{"a purge by an address", "POST", "/admin/purge", "127.0.0.1", 200},
		{"the command line, which may contain keys", "GET", "/debug/pprof/cmdline", "127.0.0.1", 404},
		{"an unknown path", "GET", "/nothing", "127.0.0.1", 404},
		{"readiness while a check fails", "GET", "/readyz", "127.0.0.1", 503},
	}
	for _, tt := range tests {
		if status, _, body := request(t, tt.method, url+tt.path, "Host", tt.host); status != tt.status {
			t.Errorf("%s: response = %d %s, want %d", tt.name, status, body, tt.status)
		}
	}
}

func TestPagesOfOtherSitesAreRefusedWithoutToken(t *testing.T) {
	_, url := start(t)
	for path, want := range map[string]int{"/": 200, "/debug/pprof/trace?seconds=1000": 403, "/admin/purge": 403, "/status/stream": 403, "/metrics": 200} {
		status, _, _ := request(t, "GET", url+path, "Sec-Fetch-Site", "cross-site")
		expect.Equal(t, status, want, "status of %s", path)
	}
}

func TestAllPathsExceptPageRequireToken(t *testing.T) {
	h, url := start(t)
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
		status, header, body := request(t, tt.method, url+tt.path, "Authorization", tt.authorization, "Host", "admin.example")
		if status != tt.status || status == 401 && header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s with %q: response = %d %s with header %v, want %d", tt.method, tt.path, tt.authorization, status, body, header, tt.status)
		}
	}
	if status, _, _ := request(t, "POST", url+"/admin/purge", "Authorization", "Bearer "+token, "Sec-Fetch-Site", "cross-site"); status != 403 {
		t.Errorf("status of a cross-site POST = %d, want 403", status)
	}
}

func TestPageLoadsNothingFromOtherServers(t *testing.T) {
	_, url := start(t)
	_, header, page := request(t, "GET", url+"/")
	if !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") || !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
		t.Errorf("header = %v, want HTML with a policy that allows nothing by default", header)
	}
	if status, _, _ := request(t, "GET", url+"/", "If-None-Match", header.Get("ETag")); status != 304 {
		t.Errorf("status with the current ETag = %d, want 304", status)
	}
	for _, link := range []string{"/status/status.css", "/status/theme.js", "/status/status.js", "/status/charts.js", "/status/format.js"} {
		if status, _, text := request(t, "GET", url+link); status != 200 || strings.Contains(text, "https://") {
			t.Errorf("%s = %d, want 200 and no URL of another server in it", link, status)
		}
	}
	if strings.Contains(strings.ReplaceAll(page, "http://www.w3.org", ""), "://") {
		t.Error("page contains a URL of another server, want none")
	}
}

// line has the members of a line of the stream that the tests check.
type line struct {
	Samples []struct {
		Tip     float64
		Answers map[string]float64
		Hits    float64
		Lookups float64
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

// pipeWriter is a ResponseWriter that writes the body to a pipe.
type pipeWriter struct {
	*httptest.ResponseRecorder
	body *io.PipeWriter
}

func (w pipeWriter) Write(p []byte) (int, error) { return w.body.Write(p) }

// streamLines runs a handler in a synctest bubble. It returns a function that reads the next line of the stream of
// samples.
func streamLines(t *testing.T, registry *prometheus.Registry) (next func() line) {
	t.Helper()
	h := newHandler(registry)
	go h.Run(t.Context())
	body, w := io.Pipe()
	t.Cleanup(func() { _ = body.Close() })
	go h.ServeHTTP(pipeWriter{httptest.NewRecorder(), w}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/status/stream", nil))
	lines := json.NewDecoder(body)
	return func() (l line) {
		t.Helper()
		expect.NoError(t, lines.Decode(&l))
		return l
	}
}

func TestStreamAgreesWithMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tipcache_proxy_requests_total"}, []string{"outcome"})
		lookups := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tipcache_cache_requests_total"}, []string{"outcome"})
		took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tipcache_proxy_request_duration_seconds"}, []string{"route", "outcome"})
		behind := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tipcache_proxy_staleness_blocks", Buckets: []float64{0, 1, 5}})
		tip := prometheus.NewGauge(prometheus.GaugeOpts{Name: "tipcache_node_tip_height"})
		ahead := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tipcache_cache_read_ahead_total"}, []string{"result"})
		registry.MustRegister(requests, lookups, took, behind, tip, ahead)
		for api, open := range map[string]float64{"http": 7, "rpc": 3, "grpc": 2} {
			g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "tipcache_" + api + "_connections"})
			g.Set(open)
			registry.MustRegister(g)
		}
		took.WithLabelValues("pool", "miss").Observe(.1) // before the first sample, so it does not count
		next := streamLines(t, registry)
		if first := next(); len(first.Samples) == 0 || first.Version != "v1" || first.State.Problems["store"] != "away" {
			t.Errorf("first line = %+v, want samples, version v1 and the problem of the store", first)
		}
		tip.Set(1000)
		requests.WithLabelValues("hit").Add(30)
		requests.WithLabelValues("miss").Add(10)
		for outcome, n := range map[string]float64{"hit": 30, "stale": 2, "miss": 8} {
			lookups.WithLabelValues(outcome).Add(n)
		}
		ahead.WithLabelValues("origin").Add(8)
		took.WithLabelValues("pool", "hit").Observe(.001)
		took.WithLabelValues("pool", "miss").Observe(.1)
		for _, blocks := range []float64{0, 0, 3, 7} {
			behind.Observe(blocks)
		}
		second := next()
		s := second.Samples[0]
		if s.Tip != 1000 || s.Answers["hit"] < 3*s.Answers["miss"]-1e-6 || s.Answers["miss"] <= 0 {
			t.Errorf("sample = %+v, want tip 1000 and three times as many hits as misses", s)
		}
		expect.NoDiff(t, []float64{s.Hits, s.Lookups}, []float64{32, 40}, "requests of the cache that needed no upstream, and all")
		if s.Ahead["origin"] <= 0 {
			t.Errorf("reads ahead per second = %v, want more than 0", s.Ahead["origin"])
		}
		expect.NoDiff(t, []float64{s.Connections, s.RPC, s.GRPC}, []float64{12, 3, 2}, "connections of all listeners, the RPC and gRPC")
		expect.NoDiff(t, s.Behind, []float64{2, 0, 1, 1}, "responses by blocks behind the tip")
		expect.Equal(t, len(second.Bounds), 3, "bounds of blocks behind the tip")
		if second.Totals.Requests != 40 || len(second.Routes) != 1 || second.Routes[0].Name != "pool" || second.Routes[0].Hits != .5 {
			t.Errorf("second line = %+v, want 40 requests and a hit share of 0.5 for pool", second)
		}
	})
}

func TestStreamsEndWithServer(t *testing.T) {
	h, url := start(t)
	go h.Run(t.Context())
	resp := expect.Value(http.Get(url + "/status/stream"))(t)
	defer resp.Body.Close()
	time.AfterFunc(50*time.Millisecond, h.Close)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("end of the stream = %v, want a complete response", err)
	}
}

func TestStreamEndsWhenItsTokenIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(prometheus.NewRegistry())
		h.SetToken("a token that is long")
		go h.Run(t.Context())
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/status/stream", nil)
		r.Header.Set("Authorization", "Bearer a token that is long")
		w, ended := httptest.NewRecorder(), make(chan struct{})
		go func() {
			h.ServeHTTP(w, r)
			close(ended)
		}()
		time.Sleep(time.Minute)
		h.SetToken("another token that is long")
		<-ended
		expect.Equal(t, w.Code, http.StatusOK, "status of the stream")
	})
}
