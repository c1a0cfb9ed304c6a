package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// newAdminMux serves openPaths.
func newAdminMux(registry *prometheus.Registry, readyz http.HandlerFunc) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	return mux
}

// adminHandler serves what operators and their machines ask.
func (s *service) adminHandler() http.Handler {
	mux := newAdminMux(s.registry, s.readyz)
	mux.HandleFunc("GET /admin/explain", s.explain)
	mux.HandleFunc("POST /admin/purge", s.purge)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return s.guarded(mux)
}

// readiness is the body of /readyz. Redis and the metadata provider are told
// of, but their loss only degrades the service and does not make it unready.
type readiness struct {
	Ready    bool              `json:"ready"`
	Problems map[string]string `json:"problems"`        // by part: node, store, draining
	Tip      int64             `json:"tip"`             // 0: none was seen
	Epoch    int64             `json:"epoch"`           // 0, or when the chain was last found reset or set back, in Unix seconds
	Redis    string            `json:"redis"`           // the breaker's state, or off
	Metadata string            `json:"metadata"`        // the breaker's state, or off
	Index    *indexHealth      `json:"index,omitempty"` // of a store that follows the chain
	Nodes    []nodeHealth      `json:"nodes"`
}

// nodeHealth is what is known of one node.
type nodeHealth struct {
	Name       string `json:"name"`
	Chain      string `json:"chain"`
	Height     int64  `json:"height"`
	Lowest     int64  `json:"lowest"` // blocks below it cannot be read; 0: unknown
	Aside      bool   `json:"aside"`  // what its CometBFT claims is not believed
	BlockAge   string `json:"block_age"`
	CatchingUp bool   `json:"catching_up"`
	Connected  bool   `json:"connected"` // block headers stream in
	Breaker    string `json:"breaker"`
	LastError  string `json:"last_error,omitempty"`
}

func (s *service) nodes() []nodeHealth {
	var all []nodeHealth
	for _, h := range s.pool.Health() {
		all = append(all, nodeHealth{h.Name, h.ChainID, h.Height, h.Lowest, h.Aside, h.BlockAge.Round(time.Millisecond).String(), h.CatchingUp, h.Connected, h.Breaker, h.LastError})
	}
	return all
}

// readyz says whether requests should be sent here. ?exclude=PART, repeatable,
// leaves a part out: behind a load balancer, a replica that has lost what all
// replicas share should go on with what it has cached.
func (s *service) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	state := readiness{Problems: map[string]string{}, Redis: s.cache.SharedState(), Metadata: s.metadata.State(), Index: s.indexed(), Nodes: s.nodes()}
	tip := s.pool.Tip()
	state.Tip, state.Epoch = tip.Height, tip.Epoch
	parts := map[string]error{"node": s.pool.Ready(), "store": s.store.Ping(ctx), "draining": s.draining()}
	for _, part := range r.URL.Query()["exclude"] {
		delete(parts, part)
	}
	for part, err := range parts {
		if err != nil {
			state.Problems[part] = err.Error()
		}
	}
	state.Ready = len(state.Problems) == 0
	status := http.StatusOK
	if !state.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, state)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails only when the client has left
}
