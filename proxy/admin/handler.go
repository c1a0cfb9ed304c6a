// Package admin serves operators and their machines: health and readiness of the
// process, its metrics and profiles, and a status page.
//
//   - handler.go mounts the paths, checks the token and the Host, and serves the status page
//     (the folder page), which needs no other server;
//   - sample.go samples the metrics (families.go) and keeps the samples of the last ten minutes;
//   - stream.go sends them to the page as lines of JSON.
package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options configure a Handler. Gatherer and Ready are required.
type Options struct {
	Gatherer prometheus.Gatherer // source of the metrics for /metrics and the charts

	// Ready reports whether requests should be sent here, and returns the state of the parts, which is
	// written as JSON. The required parts must work.
	Ready func(ctx context.Context, required []string) (ready bool, state any)

	Calls    map[string]http.HandlerFunc // additional handlers, by ServeMux pattern
	Profiles bool                        // serve /debug/pprof
	Version  string                      // version that the page shows
}

// A Handler serves the admin listener. Run takes the samples. Close ends Run and the streams of samples.
type Handler struct {
	o       Options
	guarded http.Handler
	pages   map[string]bool                   // paths of the status page, which hold no figures
	token   atomic.Pointer[[sha256.Size]byte] // digest of the required token; nil means none
	samples *sampler

	watching atomic.Int32 // number of open streams
	ended    chan struct{}
	end      func()
}

// New returns a handler. It requires no token until SetToken sets one.
func New(o Options) *Handler {
	h := &Handler{o: o, pages: map[string]bool{"/": true}, samples: &sampler{gatherer: o.Gatherer, next: make(chan struct{})}, ended: make(chan struct{})}
	h.end = sync.OnceFunc(func() { close(h.ended) })
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		WriteJSON(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", h.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /status/stream", h.stream)
	mux.HandleFunc("GET /{$}", servePage)
	files, _ := pages.ReadDir("page") // embedded, so it cannot fail
	for _, f := range files {
		h.pages["/status/"+f.Name()] = true
		mux.HandleFunc("GET /status/"+f.Name(), servePage)
	}
	for pattern, call := range o.Calls {
		mux.HandleFunc(pattern, call)
	}
	if o.Profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", http.NotFound) // it may hold a secret
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	h.guarded = http.NewCrossOriginProtection().Handler(h.guard(mux))
	return h
}

// ServeHTTP serves requests that the guard admits. Pages of other origins may not change anything, with or
// without a token.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.guarded.ServeHTTP(w, r) }

// Run takes samples until ctx ends or Close is called.
func (h *Handler) Run(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		h.samples.sample(time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-h.ended:
			return
		}
	}
}

// Close ends Run and the streams. Register it with [http.Server.RegisterOnShutdown], because Shutdown waits
// for the streams.
func (h *Handler) Close() { h.end() }

// readyTimeout is the timeout for the check of all parts.
const readyTimeout = time.Second

// readyz serves /readyz. A replica that has lost a part stays ready, because it can serve cached entries.
// ?require=PART (repeatable) makes it unready if that part fails, for replicas that have a node each.
func (h *Handler) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	ready, state := h.o.Ready(ctx, r.URL.Query()["require"])
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	WriteJSON(w, status, state)
}

// WriteJSON sends a value as JSON that must not be stored.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails only when the client has left
}

// pages is the status page: HTML, style and scripts, without a build step.
//
//go:embed page
var pages embed.FS

// pagePolicy allows the page its own files and its stream only.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// servePage serves the files under /status, and the page at /.
func servePage(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	if r.URL.Path == "/" {
		name = "index.html"
	}
	text, err := pages.ReadFile("page/" + name)
	if err != nil {
		panic(err) // the file is embedded
	}
	sum := sha256.Sum256(text)
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // a newer program has a newer page
	h.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
}

// machinePaths are served without a token and under any host name. They hold nothing confidential.
var machinePaths = map[string]bool{"/healthz": true, "/readyz": true, "/metrics": true}

// guard requires the token for all paths except machinePaths and the page, which has a field for it. If
// no token is set, the Host must be an IP address or localhost: a hostile page could point a name of its
// own here to read the responses (DNS rebinding).
func (h *Handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want := h.token.Load()
		switch {
		case machinePaths[r.URL.Path]:
		case want == nil && !isLocalName(r.Host):
			WriteJSON(w, http.StatusForbidden, map[string]string{
				"error": "without an admin token this is served under an IP address or localhost only: set admin_token, or use an address"})
			return
		case want != nil && !h.pages[r.URL.Path] && !hasToken(r, want):
			w.Header().Set("WWW-Authenticate", `Bearer realm="tipcache admin"`)
			WriteJSON(w, http.StatusUnauthorized, map[string]string{"error": "the admin token is required: Authorization: Bearer TOKEN"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocalName reports whether a Host is an IP address or localhost, so that no name server resolved it.
func isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}

// hasToken reports whether a request has the token. It compares digests in constant time.
func hasToken(r *http.Request, want *[sha256.Size]byte) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// SetToken replaces the required token, of which only the digest is kept. none and "" mean that none is
// required.
func (h *Handler) SetToken(token string) {
	if token == "" || token == "none" {
		h.token.Store(nil)
		return
	}
	digest := sha256.Sum256([]byte(token))
	h.token.Store(&digest)
}
