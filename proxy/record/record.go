// Package record remembers what became of requests.
//
//   - record.go is the record that a request has from its arrival to its end, and makes its id;
//   - recorder.go fills that in, and counts it at its end;
//   - line.go writes it into the access log;
//   - buffer.go keeps lines of the log for one system call, and trace.go tells the
//     collector of traces what a request came to.
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

// A Record has what is known of one request, for its handler, the access log and metrics.
type Record struct {
	Client  limits.Client   // its address, and its key where one is required
	Session session.Session // what the client has seen

	Place    Place                                   // where the fast lane keeps what answers the request again; nil for nowhere
	Replayer Replayer                                // answers the request again; nil if its handler must
	Own      string                                  // for a Replayer: part of the body that is the client's own; "" for none
	Room     []byte                                  // for a Replayer: storage for Response.Body
	Amend    func(respond.Response) respond.Response // changes the response before it is sent; nil changes nothing

	Route    string // its name, which is a label: never a path
	Start    time.Time
	ID       [1]string // also the header's values
	Outcome  string    // hit, stale, miss, collapsed, stale_error; without the cache answered, refused, abandoned or failed
	Store    string
	Height   int64 // of the block it was answered at
	Tip      int64 // newest block known then; 0 for none
	Pinned   bool  // the client chose the height
	Cached   bool  // the cache gave the answer, and what is known of its age
	Age      time.Duration
	Degraded bool // a page that lacks metadata it should have
	Streamed bool // the answer lasted as long as its client stayed

	Err       error
	Public    string // the text of Err that the client gets
	Blameless bool   // the status is the upstream's response to the input, not a failure
	Expected  bool   // Err is brought about by clients as they like, whatever the status

	span trace.Span // nil if not traced
}

// A Place keeps what answers a request again. Package lane has them.
type Place interface {
	// Remember makes the lane answer requests like r by the Replayer of its record.
	Remember(r *http.Request, rec *Record)
}

// A Replayer answers a request that was answered before, as its handler would.
type Replayer interface {
	// Replay fills in the record and the response if memory has a fresh entry that Repeats. It sends no request and
	// does not wait. If it returns false, nothing is counted.
	Replay(rec *Record, a *respond.Response) bool
}

// Repeats reports whether the lane may serve an entry. It leaves out failures, whose log lines differ.
func Repeats(e *cache.Entry) bool { return e.Status < http.StatusInternalServerError }

// Repeatable reports whether a Replayer would be of use.
func (rec *Record) Repeatable() bool { return rec.Place != nil }

// KeepOutOfLane keeps the request from being answered again without its handler.
func (rec *Record) KeepOutOfLane() { rec.Place = nil }

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

// End is what is known of a request at its end.
type End struct {
	Head
	Status, Size int
	Took         time.Duration
}

// Options configure a Recorder.
type Options struct {
	AccessLog    io.Writer             // gets a line of JSON for each request at Logger's level; nil disables it
	OnlyFailures bool                  // of these, only the lines for a status of 500 and more
	SkipLog      float64               // share of the lines for successful requests (status below 400) that is not written; default 0
	Logger       *slog.Logger          // whose level counts
	Registerer   prometheus.Registerer // nil registers nothing
	Tracing      trace.TracerProvider  // nil disables traces
}

// RequestID returns the id in the headers of a request if it is harmless, or else a new one. An id must be unique, and
// is no secret.
func RequestID(h http.Header) string {
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

// SafeID reports whether a client's id is safe to log and send back.
func SafeID(id string) bool {
	for _, c := range []byte(id) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.' || c == ':') {
			return false
		}
	}
	return 0 < len(id) && len(id) <= 64
}
