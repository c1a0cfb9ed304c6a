package admin

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
)

// Maximum numbers of connections. The listener may close a connection that holds no place when it needs one for a new
// client. Requests for machinePaths hold none, so slow clients cannot block these paths.
const (
	maxConnections = 128
	maxPlaces      = maxConnections - 16
	maxLong        = maxConnections / 2 // of profiles, traces and streams of samples, which hold places, too
)

const (
	timeout     = 5 * time.Second  // for reading a request and, after its headers, for the response
	idleTimeout = 2 * time.Minute  // of a connection without requests
	longWrite   = 10 * time.Second // for each write of a long response
)

// Listen opens an admin listener for a server of NewServer, which handles TLS.
func Listen(ctx context.Context, address string, log *slog.Logger) (net.Listener, error) {
	l, err := conn.Listen(ctx, address, conn.Options{
		Settings: conn.Settings{Most: maxConnections, Share: maxConnections}, Logger: log.With("listener", "admin"), // one address may send all probes
	})
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	return l, nil
}

// NewServer returns the server of an admin listener. Its Shutdown closes h.
func (h *Handler) NewServer(errorLog *log.Logger) *http.Server {
	server := &http.Server{
		Handler: h, ReadTimeout: timeout, WriteTimeout: timeout, IdleTimeout: idleTimeout, ErrorLog: errorLog,
		ConnContext: conn.Context, // without ConnState, only places make a connection busy
	}
	server.RegisterOnShutdown(h.Close)
	return server
}

// Extend returns the context of a request that may take d, and extends the deadlines of its connection. The request must
// have been read.
func Extend(w http.ResponseWriter, r *http.Request, d time.Duration) (context.Context, context.CancelFunc) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(d)) // at the deadline, http.Server cancels the context
	_ = control.SetWriteDeadline(time.Now().Add(d + timeout))
	return context.WithTimeout(r.Context(), d)
}

// places limit the requests that are served at the same time.
type places struct{ taken atomic.Int64 }

// acquire returns false if most places are taken. If it returns true, the caller must call release.
func (p *places) acquire(most int64) bool {
	if p.taken.Add(1) <= most {
		return true
	}
	p.release()
	return false
}

func (p *places) release() { p.taken.Add(-1) }

// ServeHTTP serves requests that the guard admits. Pages of other origins may not change anything, with or
// without a token.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !machinePaths[r.URL.Path] {
		if !h.places.acquire(maxPlaces) {
			WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "too many requests are in progress"})
			return
		}
		defer h.places.release()
		defer conn.Of(r).Hold()()
	}
	h.guarded.ServeHTTP(w, r)
}

// long returns a handler of requests that may take any time, as long as the client reads the response.
func (h *Handler) long(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !h.longs.acquire(maxLong) {
			WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "too many profiles, traces and status pages are open"})
			return
		}
		defer h.longs.release()
		control := http.NewResponseController(w)
		if r.ContentLength == 0 { // a body must arrive within the timeout
			_ = control.SetReadDeadline(time.Time{})
		}
		serve(longWriter{w, control}, r)
	}
}

// A longWriter gives each write its own deadline.
type longWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w longWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(longWrite))
	return w.ResponseWriter.Write(p)
}

// Unwrap supports [http.ResponseController].
func (w longWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
