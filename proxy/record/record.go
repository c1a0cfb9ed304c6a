// Package record counts, logs and traces requests.
//
//   - record.go has the record of a request, from its arrival to its end, and makes request ids;
//   - recorder.go counts a request at its end;
//   - accesslog.go writes its line of the access log, and buffer.go collects lines for one system call;
//   - trace.go decides whether a request is traced, and ends its span.
package record

import (
	"encoding/binary"
	"encoding/hex"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
)

// A Record describes one request for its handler, the access log, metrics and traces.
type Record struct {
	Client  limits.Client   // address, and API key if it counts
	Keyed   bool            // the route requires an API key
	Charge  limits.Charge   // what the request counts as
	Session session.Session // what the client has seen

	LaneSlot LaneSlot // nil keeps the request out of the fast lane
	Replayer Replayer // answers later equal requests; nil leaves them to the handler
	CallerID string   // for a Replayer: the JSON-RPC id in the body, or ""
	Buffer   []byte   // for a Replayer: storage for Response.Body

	Route    string // name of the route, which is a label: never a path
	Start    time.Time
	Waited   time.Duration // for blocks, of the nodes or of the index; the duration in metrics does not include it
	ID       [1]string     // an array, so that a header can share it
	Outcome  string        // hit, stale, miss, collapsed, stale_error; without the cache answered, refused, abandoned or failed
	Store    string
	Height   int64 // height of the response
	Tip      int64 // newest known block at that time; 0 if unknown
	Pinned   bool  // the client chose the height, or the response never changes
	Cached   bool  // the response is from the cache, so Height and Age are set
	Age      time.Duration
	Degraded bool // the page lacks metadata that it should have
	Streamed bool // a stream, whose duration is up to the client

	Err       error
	Public    string // text of Err for the client
	Failed    bool   // the message of another protocol, such as a gRPC status, reports a failure of the server
	Blameless bool   // a 5xx status is the upstream's answer to this input, not a failure
	Expected  bool   // clients can cause Err at will, whatever the status

	Sampling Sampling   // whether the request is traced; Recorder.Begin decides unless the fast lane has
	span     trace.Span // nil if not traced
}

// A LaneSlot registers a request with the fast lane. Package lane implements it.
type LaneSlot interface {
	// Put makes the lane answer requests equal to r, whose head is logged, by rec.Replayer.
	Put(r *http.Request, head Head, rec *Record)
}

// A Replayer answers requests equal to one that a handler has answered, as the handler would.
type Replayer interface {
	// Replay fills in the record and the response if memory has a fresh entry that the lane may serve. It sends no
	// request and does not wait. If it returns false, nothing is counted.
	Replay(rec *Record, a *respond.Response) bool
}

// LaneMayServe reports whether the lane may serve an entry. It must not serve failures, whose log lines differ.
func LaneMayServe(e *cache.Entry) bool { return e.Status < http.StatusInternalServerError }

// KeepOutOfLane keeps the request from being answered again without its handler.
func (rec *Record) KeepOutOfLane() { rec.LaneSlot = nil }

// Fail records what the client gets for Err, and returns it.
func (rec *Record) Fail() *failure.Failure {
	f := failure.Of(rec.Err)
	rec.Public, rec.Expected, rec.Outcome = f.Public, f.Expected, outcomeOf(f)
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

// End describes a request at its end.
type End struct {
	Head
	Status, Size int
	Took         time.Duration
}

// Options configure a Recorder.
type Options struct {
	AccessLog    io.Writer             // receives a line of JSON per request; nil disables the access log
	OnlyFailures bool                  // log only requests with status 500 and above
	SkipLog      float64               // share of successful requests (status below 400) that is not logged; default 0
	Logger       *slog.Logger          // its level applies to the access log
	Registerer   prometheus.Registerer // nil registers no metrics
	Tracing      trace.TracerProvider  // nil disables traces; must have the sampler of [Sampler]
	TraceRatio   float64               // share of requests that are traced

	FromProxy func(*http.Request) bool // reports whether a trusted proxy sent a request; nil means never
}

// RequestID returns the id in the headers of a request if it is safe, and a new one otherwise. An id is no secret.
func RequestID(h http.Header) string {
	if sent := h[respond.RequestIDHeader]; len(sent) > 0 && SafeID(sent[0]) {
		return sent[0]
	}
	var room [32]byte
	return string(AppendID(room[:0]))
}

// AppendID appends a new id.
func AppendID(b []byte) []byte {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return hex.AppendEncode(b, id[:])
}

// SafeID reports whether a client's id is short and has only letters, digits and the characters -_.:
func SafeID(id string) bool {
	for _, c := range []byte(id) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.' || c == ':') {
			return false
		}
	}
	return 0 < len(id) && len(id) <= 64
}
