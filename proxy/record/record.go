// Package record remembers what became of requests.
//
//   - record.go is what one request is remembered by, and what takes it at its end;
//   - log.go writes it into the access log, template.go does so in less time for
//     a request that is repeated, and buffer.go keeps lines for one system call;
//   - metrics.go counts it, and trace.go tells the collector of traces.
package record

import (
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache"
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

	Err      error
	Public   string // what the client is told of Err
	Expected bool   // Err is brought about by clients as they like, whatever the status

	span trace.Span // nil: not traced
}

// End is what is known of a request at its end.
type End struct {
	Asked
	Client       netip.Addr // not valid where the connection has no address
	Status, Size int
	Took         time.Duration
	ID           []byte // nil: the record's
}

// Asked is what the client sent, as the log has it.
type Asked struct {
	Method, Path, Query, Agent string
}

// The longest query and User-Agent that are logged, in bytes.
const (
	maxQuery = 2 << 10
	maxAgent = 256
)

// AskedBy is that of a request. It holds no key.
func AskedBy(r *http.Request) Asked {
	return Asked{r.Method, r.URL.Path, atMost(maxQuery, withoutKeys(r.URL.RawQuery)), atMost(maxAgent, r.UserAgent())}
}

func atMost(bytes int, text string) string { return text[:min(len(text), bytes)] }

// Result notes what came of asking the cache.
func (rec *Record) Result(res cache.Result) {
	rec.Cached = true
	rec.Outcome, rec.Store, rec.Err = outcome(res), res.Store, res.Err
	rec.Height, rec.Age = res.Entry.Height, max(0, rec.Start.Sub(res.Entry.ReadAt))
}

// outcome tells the callers that joined a flight from the caller that began it.
func outcome(res cache.Result) string {
	if res.Outcome == cache.Miss && res.Collapsed {
		return "collapsed"
	}
	return res.Outcome.String()
}

// keyInQuery is a key that a URL for EventSource carries, wherever that URL is
// opened.
var keyInQuery = regexp.MustCompile(`(api_key=)[^&]*`)

// withoutKeys is a query as it may be logged.
func withoutKeys(query string) string {
	if !strings.Contains(query, "api_key=") {
		return query
	}
	return keyInQuery.ReplaceAllString(query, "${1}redacted")
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

// A Recorder takes the records of requests. It is safe for concurrent use.
type Recorder struct {
	log     accessLog
	metrics *metrics
	tracer  trace.Tracer // nil: no traces
}

// New registers the metrics.
func New(o Options) *Recorder {
	return &Recorder{newAccessLog(o), newMetrics(o.Registerer), tracerOf(o.Tracing)}
}

// Traces tells whether requests may be traced, which is decided for each.
func (r *Recorder) Traces() bool { return r.tracer != nil }

// Begin gives back the request, in the context of its span if it is traced.
func (r *Recorder) Begin(request *http.Request, rec *Record) *http.Request {
	if r.tracer == nil {
		return request
	}
	return r.trace(request, rec)
}

// End takes the record of a request that has ended.
func (r *Recorder) End(rec *Record, end *End) {
	r.metrics.observe(rec, end)
	r.log.write(rec, end)
	if rec.span != nil {
		rec.endSpan(end)
	}
}

// EndRepeated does the same for a request that a template was made of, in less
// time. It returns the buffer that it was given, which may have grown.
func (r *Recorder) EndRepeated(t *Template, rec *Record, end *End, buffer []byte) []byte {
	r.metrics.observeRepeated(t, rec, end)
	return r.log.writeRepeated(t, rec, end, buffer)
}
