package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/upstream"
)

// Handler returns the handler of a listener, which passes a request to the first engine whose base its path is below. The last one has
// no base. hasPath reports whether an engine answers a path of the health checks; nil means that none does.
func (s *Stack) Handler(hasPath func(path string) bool, engines ...*Engine) http.Handler {
	return &door{s, engines, hasPath}
}

// A door makes a [Request] of each HTTP request that neither the health checks nor the fast lane answer.
type door struct {
	Stack   *Stack
	engines []*Engine
	hasPath func(path string) bool
}

// ServeHTTP implements [http.Handler]. While the process drains, responses ask clients to close their connection.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.Stack.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	c := conn.Of(r)
	lane, _ := c.Lane().(Lane)
	isStream := c != nil && r.ProtoMajor >= 2
	var sampling record.Sampling
	if lane != nil && !isStream && !c.CarriesTLS() { // it could not answer when it read the request, but counts it, and has decided whether it is traced
		_, sampling = lane.Serve(c, w, r)
	}
	if IsHealthCheck(r) && (d.hasPath == nil || !d.hasPath(r.URL.Path)) {
		d.Stack.serveHealth(w, r)
		return
	}
	if isStream {
		c.ServeStream(w, r, func(w http.ResponseWriter) (answered bool) {
			d.Stack.setOrigin(w.Header(), r)
			if lane != nil && d.Stack.o.Lane != nil {
				answered, sampling = lane.Serve(c, w, r)
			}
			return answered
		}, func(w http.ResponseWriter, refused bool) {
			d.pass(w, r, lane, sampling, refused)
		})
		return
	}
	d.pass(w, r, lane, sampling, false)
}

// pass makes a Request, and passes it through the engine of the base path that it was sent below.
func (d *door) pass(w http.ResponseWriter, from *http.Request, lane Lane, sampling record.Sampling, refused bool) {
	r := NewHTTPRequest(w, from)
	r.lane, r.refused, r.Record.Sampling, r.writer = lane, refused, sampling, ginWriter{w, r}
	for _, e := range d.engines {
		if e.Enter(r) {
			e.gin.ServeHTTP(&r.writer, r.Request)
			return
		}
	}
}

// Sample decides whether the request of a peer is traced.
func (s *Stack) Sample(peer netip.Addr, parent string) record.Sampling {
	return s.Recorder.Sample(parent != "" && s.Admission.Trusts(peer), parent)
}

// Deadline returns the deadline of a request that began at start.
func (s *Stack) Deadline(start time.Time) time.Time { return start.Add(s.o.RequestTimeout) }

// WithDeadline returns the context of a request with its deadline. The caller must call Release.
func (s *Stack) WithDeadline(r *Request) *upstream.LazyDeadline {
	return upstream.WithLazyDeadline(r.Context(), s.Deadline(r.Record.Start))
}

// Drain makes all further responses ask clients to close their connections. To close them here could lose requests.
func (s *Stack) Drain() { s.leaving.Store(true) }

// Oversized returns a failure for a request whose URL or headers are too large.
func (s *Stack) Oversized(r *http.Request) error {
	if len(r.RequestURI) > MaxURL {
		return &failure.Failure{Status: http.StatusRequestURITooLong, Public: fmt.Sprintf("the request target is longer than %d bytes", MaxURL)}
	}
	if conn.HeaderBytes(r.Header)+len(r.Host) > MaxHeader {
		return &failure.Failure{Status: http.StatusRequestHeaderFieldsTooLarge, Public: fmt.Sprintf("the request headers are larger than %d bytes", MaxHeader)}
	}
	return nil
}

// Arrive sets the client of a request, and what it has seen.
func (s *Stack) Arrive(r *Request) {
	c, rec := r.client, &r.Record
	rec.Session.Arrive(c.Seen())
	if c != nil && r.Header[limits.ForwardedFor] == nil {
		rec.Client.Address = c.Address()
	} else {
		rec.Client.Address = s.Admission.AddressOf(r.Request)
	}
}

// end counts and logs a request, and registers it with the fast lane if memory has answered it.
func (s *Stack) end(r *Request, status, size int) {
	rec := &r.Record
	rec.Session.Leave()
	head := record.HeadOf(r.Request, r.Base)
	if rec.LaneSlot != nil && rec.Replayer != nil && rec.Err == nil && rec.Outcome == string(cache.Hit) && rec.Store == "memory" {
		rec.LaneSlot.Put(r.Request, head, rec)
	}
	if rec.Failed && status == http.StatusOK { // a failure in the body of an RPC response counts as one of REST
		status = http.StatusBadGateway
	}
	s.Recorder.End(rec, &record.End{Head: head, Status: status, Size: size, Took: time.Since(rec.Start)}, nil)
}

// recovered calls serve and returns a panic as an error.
func recovered(serve func() (int, error)) (size int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return serve()
}

// BaseURL returns the URL below which the paths of a request's mount are: at the public address if one is configured, else at
// the host that the client has named. If the Host header is not a valid host, the result is only the path.
func (s *Stack) BaseURL(r *Request) string {
	base := r.Base
	switch {
	case s.o.PublicURL != "":
		return strings.TrimSuffix(s.o.PublicURL, "/") + base
	case !IsHost(r.Host):
		return base
	case s.IsSecure(r.Request):
		return "https://" + r.Host + base
	default:
		return "http://" + r.Host + base
	}
}

// IsHost reports whether a Host header, which the client chooses, can be part of a URL.
func IsHost(host string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]"
	return host != "" && len(host) < 260 && strings.Trim(host, allowed) == ""
}
