package record

import (
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

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
	rec.endSpan(end)
}

// EndRepeated does the same for a request that a template was made of, in less
// time. It returns the buffer that it was given, which may have grown.
func (r *Recorder) EndRepeated(t *Template, rec *Record, end *End, buffer []byte) []byte {
	r.metrics.observe(rec, end)
	return r.log.writeRepeated(t, rec, end, buffer)
}
