// Package record remembers what became of requests.
//
//   - record.go is what one request is remembered by;
//   - recorder.go fills that in, and counts it at its end;
//   - line.go writes it into the access log;
//   - buffer.go keeps lines of the log for one system call, and trace.go tells the
//     collector of traces what a request came to.
package record

import (
	"io"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// A Record is what one request is remembered by.
type Record struct {
	Route    string // its name, which is a label: never a path
	Start    time.Time
	ID       [1]string // also the header's values
	Tenant   string    // the name on the request's key
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
	Public    string // what the client is told of Err
	Blameless bool   // the status is the origin's word about what was asked, and tells of no failure
	Expected  bool   // Err is brought about by clients as they like, whatever the status

	span trace.Span // nil: not traced
}

// End is what is known of a request at its end.
type End struct {
	Head
	Client       netip.Addr // not valid where the connection has no address
	Status, Size int
	Took         time.Duration
}

// Options configure a Recorder.
type Options struct {
	AccessLog    io.Writer             // gets a line of JSON for each request that is of Logger's level; nil: none
	OnlyFailures bool                  // of these, only the lines for a status of 500 and more
	SkipLog      float64               // share of the lines for successful requests (status below 400) that is not written; default 0
	Logger       *slog.Logger          // whose level counts
	Registerer   prometheus.Registerer // nil: metrics are kept to itself
	Tracing      trace.TracerProvider  // nil: no traces
}
