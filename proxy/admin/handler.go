// Package admin serves operators and their machines: health and readiness of the
// process, its metrics and profiles, and a status page.
//
//   - handler.go mounts it all;
//   - guard.go checks the token and the Host;
//   - sample.go takes samples of the metrics (families.go), and keeps the ones of the
//     last ten minutes;
//   - stream.go sends them to the page, one JSON text a line;
//   - page.go serves the page itself (the folder page), which needs no other server.
package admin

import (
	"context"
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
	Gatherer prometheus.Gatherer // whose metrics are served and drawn

	// Ready reports whether requests should be sent here, and how the parts are, in a form that is
	// written as JSON. A part that is required must work.
	Ready func(ctx context.Context, required []string) (ready bool, state any)

	Calls    map[string]http.HandlerFunc // further calls, by ServeMux's pattern
	Profiles bool                        // serve /debug/pprof
	Version  string                      // of the program, as the page shows it
}

// A Handler serves the admin listener. Run keeps its samples; Close ends Run and
// the streams of samples.
type Handler struct {
	o       Options
	guarded http.Handler
	pages   map[string]bool        // paths of the status page, which hold no figures
	token   atomic.Pointer[digest] // nil requires none
	samples *sampler

	watching atomic.Int32 // streams that are open
	ended    chan struct{}
	end      func()
}

// New mounts everything. A token is required once SetToken has set one.
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
	files, _ := pages.ReadDir("page") // part of the program
	for _, f := range files {
		h.pages["/status/"+f.Name()] = true
		mux.HandleFunc("GET /status/"+f.Name(), servePage)
	}
	for pattern, call := range o.Calls {
		mux.HandleFunc(pattern, call)
	}
	if o.Profiles {
		mountProfiles(mux)
	}
	h.guarded = http.NewCrossOriginProtection().Handler(h.guard(mux))
	return h
}

// mountProfiles leaves out the command line: a secret in it would be shown to
// all clients that may take a profile.
func mountProfiles(mux *http.ServeMux) {
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", http.NotFound)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
}

// ServeHTTP answers what the guard lets through. Pages of a browser elsewhere may
// not change anything, with or without a token.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.guarded.ServeHTTP(w, r) }

// Run samples until ctx ends or Close is called.
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

// Close ends Run and the streams. It suits http.Server's RegisterOnShutdown,
// which would otherwise wait for them.
func (h *Handler) Close() { h.end() }

// readyTimeout is the time that the parts have to report their state.
const readyTimeout = time.Second

// readyz serves /readyz. A replica that has lost a part is ready: behind a load balancer it should go
// on with what it has cached. ?require=PART, repeatable, makes it unready, for a replica with a node of
// its own, next to others that have theirs.
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

// WriteJSON answers with a value as JSON, not to be stored.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails only when the client has left
}
