package web

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tipcache/tipcache/proxy/conn"
)

// A Readiness is the state of this replica: whether requests should be sent to it. A nil Readiness is always ready. It is safe for
// concurrent use.
type Readiness struct {
	mu      sync.Mutex // held by changes
	current atomic.Pointer[readiness]
}

type readiness struct {
	ready    bool
	draining bool             // ready stays false
	parts    map[string]error // configured parts; nil if the part works
	changed  chan struct{}    // closed when ready changes
}

// NewReadiness returns a Readiness that is not ready.
func NewReadiness() *Readiness {
	r := &Readiness{}
	r.current.Store(&readiness{changed: make(chan struct{})})
	return r
}

// Set sets whether the replica is ready, and the state of its configured parts: the error of a part, or nil if it works. It must
// not be called with a map that changes later. After Drain, the replica stays unready.
func (r *Readiness) Set(ready bool, parts map[string]error) {
	r.change(func(next *readiness) { next.ready, next.parts = ready, parts })
}

// Drain makes the replica unready for good.
func (r *Readiness) Drain() { r.change(func(next *readiness) { next.draining = true }) }

func (r *Readiness) change(to func(next *readiness)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.current.Load()
	next := *last
	to(&next)
	if next.ready = next.ready && !next.draining; next.ready != last.ready {
		next.changed = make(chan struct{})
		defer close(last.changed)
	}
	r.current.Store(&next)
}

// State reports whether the replica is ready, and returns a channel that is closed when this changes.
func (r *Readiness) State() (ready bool, changed <-chan struct{}) {
	if r == nil {
		return true, nil
	}
	state := r.current.Load()
	return state.ready, state.changed
}

// isReady reports whether the replica is ready, and all parts work that the parameters named require of a query name.
func (r *Readiness) isReady(query string) bool {
	if r == nil {
		return true
	}
	state := r.current.Load()
	if !state.ready {
		return false
	}
	for pair := range strings.SplitSeq(query, "&") { // url.ParseQuery would allocate memory for each pair
		if part, ok := strings.CutPrefix(pair, "require="); ok {
			if err, configured := state.parts[part]; err != nil || !configured {
				return false
			}
		}
	}
	return true
}

// Paths of the health checks, at the root of a listener's host.
const (
	HealthPath = "/healthz" // whether the process runs
	ReadyPath  = "/readyz"  // whether requests should be sent to this replica
)

// IsHealthPath reports whether a path, relative to the root of the host, is one of the health checks.
func IsHealthPath(path string) bool { return path == ReadyPath || path == HealthPath }

// IsHealthCheck reports whether a request is one of the health checks.
func IsHealthCheck(r *http.Request) bool {
	return IsHealthPath(r.URL.Path) && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// serveHealth answers a health check of a balancer on a client listener. Health checks need no key, are neither limited, counted nor
// logged, and read nothing but the Readiness.
func (s *Stack) serveHealth(w http.ResponseWriter, r *http.Request) {
	if c := conn.Of(r); c != nil && r.ProtoMajor >= 2 {
		c.ServeStream(w, r, func(http.ResponseWriter) bool { return false }, func(w http.ResponseWriter, _ bool) { s.sendHealth(w, r) })
	} else {
		s.sendHealth(w, r)
	}
}

func (s *Stack) sendHealth(w http.ResponseWriter, r *http.Request) {
	status, word := http.StatusOK, "alive\n"
	switch {
	case r.URL.Path == HealthPath:
	case s.o.Readiness.isReady(r.URL.RawQuery):
		word = "ready\n"
	default:
		status, word = http.StatusServiceUnavailable, "unready\n"
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(word)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = w.Write([]byte(word)) // fails only if the client has disconnected
	}
}
