package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
)

// Serve passes a request to h, unless the fast lane answers it. While the process drains, responses close their connection.
func (s *Stack) Serve(h http.Handler, w http.ResponseWriter, r *http.Request) {
	c := conn.Of(r)
	if s.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	if c != nil && r.ProtoMajor >= 2 {
		c.ServeStream(w, r, func(w http.ResponseWriter) bool {
			s.setOrigin(w.Header(), r)
			return s.servedInLane(c, w, r)
		}, h)
	} else if c == nil || c.CarriesTLS() || !s.servedInLane(c, w, r) {
		h.ServeHTTP(w, r)
	}
}

// servedInLane passes a request to the lane of its connection, and reports whether the lane has answered it.
func (s *Stack) servedInLane(c *conn.Conn, w http.ResponseWriter, r *http.Request) bool {
	lane, ok := c.Lane().(Lane)
	return ok && (r.ProtoMajor < 2 || s.NoLane() == "") && lane.Serve(c, c.LaneConn(), w, r)
}

// Drain makes all further responses ask clients to close their connections. To close them from here could lose a request
// that a client is sending.
func (s *Stack) Drain() { s.leaving.Store(true) }

// Oversized returns a failure for a request whose URL or headers are too large.
func (s *Stack) Oversized(r *http.Request) error {
	if len(r.RequestURI) > MaxURL {
		return &failure.Failure{Status: http.StatusRequestURITooLong, Public: fmt.Sprintf("the request target is longer than %d bytes", MaxURL)}
	}
	if conn.HeaderBytes(r.Header) > MaxHeader {
		return &failure.Failure{Status: http.StatusRequestHeaderFieldsTooLarge, Public: fmt.Sprintf("the request headers are larger than %d bytes", MaxHeader)}
	}
	return nil
}

// arrive sets the client of a record, and what it has seen.
func (s *Stack) arrive(r *http.Request, rec *record.Record) {
	c := conn.Of(r)
	rec.Session.Arrive(c.Seen())
	if c != nil && r.Header[limits.ForwardedFor] == nil {
		rec.Client.Address = c.Address()
	} else {
		rec.Client.Address = s.Admission.AddressOf(r)
	}
}

// end counts and logs a request, and registers it with the fast lane if memory has answered it.
func (s *Stack) end(r *http.Request, rec *record.Record, status, size int) {
	if rec.LaneSlot != nil && rec.Replayer != nil && rec.Err == nil && rec.Outcome == cache.Hit.String() && rec.Store == "memory" {
		rec.LaneSlot.Put(r, rec)
	}
	s.Recorder.End(rec, &record.End{Head: record.HeadOf(r), Status: status, Size: size, Took: time.Since(rec.Start)}, nil)
}

// BaseURL returns the URL below which the paths of a request's mount are: at the public address if one is configured,
// else at the host that the client has named. It is a path if that is no host.
func (s *Stack) BaseURL(r *http.Request) string {
	base := respond.BaseOf(r)
	switch {
	case s.o.PublicURL != "":
		return strings.TrimSuffix(s.o.PublicURL, "/") + base
	case !isHost(r.Host):
		return base
	case r.TLS != nil:
		return "https://" + r.Host + base
	default:
		return "http://" + r.Host + base
	}
}

// isHost reports whether a Host header, which the client chooses, can be part of a URL.
func isHost(host string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]"
	return host != "" && len(host) < 260 && strings.Trim(host, allowed) == ""
}

// A LazyDeadline is a context with a deadline whose timer starts only when a caller waits for it. Most requests are answered
// from memory without waiting, and a timer would cost as much as the response.
type LazyDeadline struct {
	context.Context //nolint:containedctx // it is one itself
	at              time.Time
	once            sync.Once
	armed           context.Context //nolint:containedctx // the same with a timer
	cancel          context.CancelFunc
}

// WithLazyDeadline returns a context with a deadline. The caller must call Release.
func WithLazyDeadline(parent context.Context, at time.Time) *LazyDeadline {
	return &LazyDeadline{Context: parent, at: at}
}

func (d *LazyDeadline) arm() {
	d.armed, d.cancel = context.WithDeadline(d.Context, d.at)
}

// Deadline implements [context.Context].
func (d *LazyDeadline) Deadline() (time.Time, bool) { return d.at, true }

// Done implements [context.Context] and starts the timer.
func (d *LazyDeadline) Done() <-chan struct{} {
	d.once.Do(d.arm)
	return d.armed.Done()
}

// Err implements [context.Context] and starts the timer, because its result must agree with Done.
func (d *LazyDeadline) Err() error {
	d.once.Do(d.arm)
	return d.armed.Err()
}

// AfterFunc starts the timer. Package context calls it, so that a derived context needs no goroutine.
func (d *LazyDeadline) AfterFunc(f func()) (stop func() bool) {
	d.once.Do(d.arm)
	return context.AfterFunc(d.armed, f)
}

// Release stops the timer. A caller that begins to wait afterwards waits for the parent, which ends with the request.
func (d *LazyDeadline) Release() {
	d.once.Do(func() { d.armed, d.cancel = d.Context, func() {} })
	d.cancel()
}

// Deadline returns the deadline of a request that began at start.
func (s *Stack) Deadline(start time.Time) time.Time { return start.Add(s.o.RequestTimeout) }
