package web

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
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

// Drain asks clients that keep a connection to open the next one elsewhere, with the answers from now on:
// closing it under them could lose the request that they are just sending.
func (s *Stack) Drain() { s.leaving.Store(true) }

// admit refuses what comes too often from its client's address, and what there is no memory for.
func (s *Stack) admit(r *http.Request, rec *Record, answer http.Header) error {
	if !rec.client.HasStream(r) {
		return conn.ErrNoStream
	}
	if s.Admission.Limits.Load().Address == (limits.Rate{}) {
		return nil
	}
	return s.Admission.AdmitAddress(r.Context(), s.address(r, rec.client), answer)
}

// address is that of a request's client. It is not valid where the connection has
// none.
func (s *Stack) address(r *http.Request, client *conn.Conn) netip.Addr {
	if client != nil && r.Header[limits.ForwardedFor] == nil {
		return client.Address()
	}
	return s.Admission.AddressOf(r)
}

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

// end has the record of a request counted and logged, whose answer the fast lane may have.
func (s *Stack) end(r *http.Request, rec *Record, status, size int) {
	if rec.Outcome == "" {
		rec.Outcome = "answered"
	}
	if rec.place != nil {
		s.remember(r, rec)
	}
	rec.Session.Leave()
	s.Recorder.End(&rec.Record, &record.End{
		Head: record.HeadOf(r), Client: s.address(r, rec.client), Status: status, Size: size, Took: time.Since(rec.Start),
	}, nil)
}

// A Record is what one request is remembered by, in the log and in metrics, and
// what of its connection matters to its handler.
type Record struct {
	record.Record

	Amend   func(respond.Response) respond.Response // changes the response before it is sent; nil changes nothing
	Session session.Session                         // of the request's client
	Own     string                                  // for a Replayer: what of its body is the client's own; "" for nothing
	Room    []byte                                  // for a Replayer: storage for Response.Body

	key      limits.Key // the request's, where one is required
	client   *conn.Conn // nil: it is not ours
	place    Place      // nil: the answer is of no use to the fast lane
	replayer Replayer   // nil: it is made anew each time
	route    Route      // of a request by HTTP
	writer   recordWriter
}

// Arrive sets the connection of the request, nil for none of ours.
func (rec *Record) Arrive(client *conn.Conn) {
	if rec.client = client; client != nil {
		rec.Session.Arrive(client.Seen())
	}
}

// Repeatable tells a handler whether a Replayer would be of use.
func (rec *Record) Repeatable() bool { return rec.place != nil }

// KeepOutOfLane keeps the request from being answered again without its handler.
func (rec *Record) KeepOutOfLane() { rec.place = nil }

// Repeat has the request answered by what is in memory when it comes again, if memory answers it
// now.
func (rec *Record) Repeat(by Replayer) { rec.replayer = by }

// requestID takes the client's id if it is harmless, else makes one. An id has
// to be one of a kind, and no secret.
func requestID(h http.Header) string {
	if sent := h[respond.RequestIDHeader]; len(sent) > 0 && SafeID(sent[0]) {
		return sent[0]
	}
	var room [32]byte
	return string(AppendID(room[:0]))
}

// AppendID makes an id.
func AppendID(b []byte) []byte {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return hex.AppendEncode(b, id[:])
}

// SafeID tells whether a client's id is harmless.
func SafeID(id string) bool {
	for _, c := range []byte(id) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.' || c == ':') {
			return false
		}
	}
	return 0 < len(id) && len(id) <= 64
}

// Given are the values of a header or a parameter of ours but for empty ones, which are as
// none: a proxy that is told to drop a header may only empty it.
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

// AdmitKey lets clients pass that have a key, for as long as they may ask. How they stand is added
// to the headers of the answer.
func (s *Stack) AdmitKey(r *http.Request, answer http.Header, rec *Record) (err error) {
	rec.key, err = s.Admission.AdmitKey(r, answer)
	rec.Tenant = rec.key.Name
	return err
}

// Client names a request's client, by whose name clients take turns: the name on the
// request's key, or else its network.
func (s *Stack) Client(r *http.Request, rec *Record) string {
	return s.Admission.Name(r, rec.Tenant)
}

// BaseURL is the public address if one is configured, else where the client
// has just found the server; "" if that cannot be told.
func (s *Stack) BaseURL(r *http.Request) string {
	switch {
	case s.o.PublicURL != "":
		return strings.TrimSuffix(s.o.PublicURL, "/")
	case !isHost(r.Host):
		return ""
	case r.TLS != nil:
		return "https://" + r.Host
	default:
		return "http://" + r.Host
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

// Fail records that the request is not answered because of err, and returns the status that the client gets.
func (rec *Record) Fail(err error) (status int) {
	rec.Err = err
	f := rec.failure()
	rec.Outcome = outcomeOf(f)
	return f.Status
}

// failure returns what the client gets for the error, and records it.
func (rec *Record) failure() *failure.Failure {
	f := failure.Of(rec.Err)
	rec.Public, rec.Expected = f.Public, f.Expected
	return f
}

// outcomeOf returns the outcome of a failed request in metrics and the log.
func outcomeOf(f *failure.Failure) string {
	switch {
	case f.Status == failure.StatusClientGone:
		return "abandoned"
	case f.Status < http.StatusInternalServerError:
		return "refused"
	default:
		return "failed"
	}
}
