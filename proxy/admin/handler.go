// Package admin serves operators and their machines: health and readiness of the
// process, its metrics and profiles, and a status page.
//
//   - server.go has the listener and its limits, and handler.go mounts the paths;
//   - guard.go checks the token and the Host;
//   - sample.go samples the metrics (families.go) and keeps the samples of the last ten minutes;
//   - stream.go sends them to the page as lines of JSON;
//   - page.go serves the page itself (the folder page), which needs no other server.
package admin

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/pprof"
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
	pages   map[string]bool                   // paths of the status page and its files, which need no token because they contain no data
	token   atomic.Pointer[[sha256.Size]byte] // digest of the required token; nil means none
	samples *sampler

	places places // of requests except those for machinePaths
	longs  places // of long requests
	ended  chan struct{}
	end    func()
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
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("GET /status/stream", h.long(h.stream))
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
		mux.HandleFunc("/debug/pprof/", h.long(pprof.Index))
		mux.HandleFunc("/debug/pprof/cmdline", http.NotFound) // it may hold a secret
		mux.HandleFunc("/debug/pprof/profile", h.long(pprof.Profile))
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", h.long(pprof.Trace))
	}
	h.guarded = http.NewCrossOriginProtection().Handler(h.guard(mux))
	return h
}

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

// Close ends Run and the streams.
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
