package record

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Begin gives back the request, in the context of its span if it is traced. The span
// belongs to the trace that the request's traceparent names if it has one. What the
// request does further down finds it in its context.
func (r *Recorder) Begin(request *http.Request, rec *Record) *http.Request {
	if r.tracer == nil {
		return request
	}
	ctx := propagation.TraceContext{}.Extract(request.Context(), propagation.HeaderCarrier(request.Header))
	ctx, rec.span = r.tracer.Start(ctx, rec.Route, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(rec.Start))
	return request.WithContext(ctx)
}

// endSpan says of a request's span what it came to. Of an error it says what the
// client was told.
func (rec *Record) endSpan(end *End) {
	if rec.span.IsRecording() {
		rec.span.SetAttributes(
			attribute.String("http.request.method", methodClass(end.Method)),
			attribute.String("http.route", rec.Route),
			attribute.Int("http.response.status_code", end.Status),
			attribute.String("tipcache.outcome", rec.Outcome),
			attribute.String("tipcache.store", rec.Store),
			attribute.Int64("tipcache.height", rec.Height),
			attribute.Int64("tipcache.tip", rec.Tip),
			attribute.String("tipcache.request_id", rec.ID[0]),
		)
	}
	if rec.Err != nil {
		rec.span.SetAttributes(attribute.String("error.message", rec.Public))
		if end.Status >= http.StatusInternalServerError {
			rec.span.SetStatus(codes.Error, rec.Public)
		}
	}
	rec.span.End()
}
