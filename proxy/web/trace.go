package web

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// tracerOf is nil where traces are off: then a request pays nothing for them.
func tracerOf(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		return nil
	}
	return p.Tracer("tipcache/proxy")
}

// trace begins the span of a request, in the trace that its traceparent names
// if it has one. What the request does further down finds it in its context.
func (s *Stack) trace(c *gin.Context, rec *Record) {
	if s.tracer == nil {
		return
	}
	ctx := propagation.TraceContext{}.Extract(c.Request.Context(), propagation.HeaderCarrier(c.Request.Header))
	ctx, rec.span = s.tracer.Start(ctx, rec.route, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(rec.Start))
	c.Request = c.Request.WithContext(ctx)
}

// endSpan says of a request's span what it came to. Of an error it says what the
// client was told.
func (rec *Record) endSpan(c *gin.Context) {
	if rec.span == nil {
		return
	}
	if rec.span.IsRecording() {
		rec.span.SetAttributes(
			attribute.String("http.request.method", methodClass(c.Request.Method)),
			attribute.String("http.route", rec.route),
			attribute.Int("http.response.status_code", c.Writer.Status()),
			attribute.String("tipcache.outcome", rec.outcome),
			attribute.String("tipcache.store", rec.store),
			attribute.Int64("tipcache.height", rec.height),
			attribute.Int64("tipcache.tip", rec.Tip),
			attribute.String("tipcache.request_id", rec.id[0]),
		)
	}
	if rec.err != nil {
		f := FailureOf(rec.err)
		rec.span.SetAttributes(attribute.String("error.message", f.Public))
		if c.Writer.Status() >= http.StatusInternalServerError {
			rec.span.SetStatus(codes.Error, f.Public)
		}
	}
	rec.span.End()
}

// traceID is the trace a request is collected in, "" for none.
func (rec *Record) traceID() string {
	if rec.span == nil || !rec.span.SpanContext().IsSampled() {
		return ""
	}
	return rec.span.SpanContext().TraceID().String()
}
