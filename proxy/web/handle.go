package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
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

// Serve passes a request to h, unless the fast lane answers it. While the process drains, it asks clients to open a new
// connection.
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
	} else if c == nil || c.IsBeneathTLS() || !s.servedInLane(c, w, r) {
		h.ServeHTTP(w, r)
	}
}

// servedInLane tells the lane of a connection about a request, and reports whether it has answered it.
func (s *Stack) servedInLane(c *conn.Conn, w http.ResponseWriter, r *http.Request) bool {
	lane, ok := c.Lane().(Lane)
	return ok && (r.ProtoMajor < 2 || s.NoLane() == "") && lane.Serve(c, c.LaneConn(), w, r)
}

// Drain asks clients that keep a connection to open the next one elsewhere, with the answers from now on:
// closing it under them could lose the request that they are just sending.
func (s *Stack) Drain() { s.leaving.Store(true) }

// Oversized refuses what is larger than any client of ours has a reason to send.
func (s *Stack) Oversized(r *http.Request) error {
	if len(r.RequestURI) > MaxURL {
		return &failure.Failure{Status: http.StatusRequestURITooLong, Public: fmt.Sprintf("the request target is longer than %d bytes", MaxURL)}
	}
	size := 0
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	if size > MaxHeader {
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
	if rec.Place != nil && rec.Replayer != nil && rec.Err == nil && rec.Outcome == cache.Hit.String() && rec.Store == "memory" {
		rec.Place.Remember(r, rec)
	}
	s.Recorder.End(rec, &record.End{Head: record.HeadOf(r), Status: status, Size: size, Took: time.Since(rec.Start)}, nil)
}

// Given returns the values of a header or a parameter of ours. Empty ones count as absent: some proxies
// empty a header instead of dropping it.
func Given(values []string) []string {
	if !slices.Contains(values, "") {
		return values
	}
	return slices.DeleteFunc(slices.Clone(values), func(value string) bool { return value == "" })
}

// ReadBlock reads a header that names a block, strictly: the node reads the latest
// state instead of a height that it cannot parse, which no client that names one
// wants. 0 is for none. The error is the client's, BadInput.
func ReadBlock(name string, values []string) (int64, error) {
	if values = Given(values); len(values) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || n <= 0 || strings.Trim(values[0], "0123456789") != "" {
		return 0, failure.BadInput("%s is %q; expected a positive integer", name, Short(values[0]))
	}
	return n, nil
}

// MinEVMParameter is the query parameter with the meaning of X-Min-Evm-Block.
const MinEVMParameter = "x-min-evm-block"

// ReadMinEVM returns the block of the execution chain that a response must include by the header or the URL of its request; 0
// for none. The error is BadInput.
func ReadMinEVM(r *http.Request) (block int64, err error) {
	if block, err = ReadBlock(respond.MinEVMHeader, r.Header[respond.MinEVMHeader]); err != nil {
		return 0, err
	}
	inURL, err := ReadBlock(MinEVMParameter, Taken(r)[MinEVMParameter])
	if err == nil && block > 0 && inURL > 0 && inURL != block {
		return 0, failure.BadInput("%s is %d and %s is %d: no answer can be both", respond.MinEVMHeader, block, MinEVMParameter, inURL)
	}
	return max(block, inURL), err
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

// isHost keeps what a URL could not hold out of ours: the Host header is the
// client's.
func isHost(host string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]"
	return host != "" && len(host) < 260 && strings.Trim(host, allowed) == ""
}

// A LazyDeadline is a context with a deadline whose timer is set only when
// a caller waits for it. Most requests are answered from memory without waiting,
// and the timer would cost them as much as the answer.
type LazyDeadline struct {
	context.Context //nolint:containedctx // it is one itself
	at              time.Time
	once            sync.Once
	armed           context.Context //nolint:containedctx // the same with a timer
	cancel          context.CancelFunc
}

// WithLazyDeadline gives a context a deadline. Release must be called in the end.
func WithLazyDeadline(parent context.Context, at time.Time) *LazyDeadline {
	return &LazyDeadline{Context: parent, at: at}
}

func (d *LazyDeadline) arm() {
	d.armed, d.cancel = context.WithDeadline(d.Context, d.at)
}

// Deadline is the deadline, timer or not.
func (d *LazyDeadline) Deadline() (time.Time, bool) { return d.at, true }

// Done sets the timer.
func (d *LazyDeadline) Done() <-chan struct{} {
	d.once.Do(d.arm)
	return d.armed.Done()
}

// Err sets the timer too: its answer must agree with Done's.
func (d *LazyDeadline) Err() error {
	d.once.Do(d.arm)
	return d.armed.Err()
}

// AfterFunc sets the timer, and has a context that is derived from this one end with it
// without a goroutine that waits: package context asks for it.
func (d *LazyDeadline) AfterFunc(f func()) (stop func() bool) {
	d.once.Do(d.arm)
	return context.AfterFunc(d.armed, f)
}

// Release stops the timer, if there is one, and must be called at the end.
// A caller that begins to wait after that has the parent, which ends with the
// request.
func (d *LazyDeadline) Release() {
	d.once.Do(func() { d.armed, d.cancel = d.Context, func() {} })
	d.cancel()
}

// Deadline is the end of the time of a request that began at the start.
func (s *Stack) Deadline(start time.Time) time.Time { return start.Add(s.o.RequestTimeout) }
