package redis

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// startSpan begins a span below the one of ctx. Where ctx has none, or its trace
// is not sampled, the span does nothing.
func startSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	above := trace.SpanFromContext(ctx)
	if !above.SpanContext().IsSampled() {
		return ctx, noop.Span{}
	}
	return above.TracerProvider().Tracer("tipcache/cache/redis").Start(ctx, name)
}

// endSpan ends a span, with what went wrong unless err is nil.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// endLease says of a lease's span what the store replied.
func endLease(span trace.Span, reply string, err error) {
	span.SetAttributes(attribute.String("tipcache.reply", reply))
	endSpan(span, err)
}
