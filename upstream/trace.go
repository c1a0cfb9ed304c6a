package upstream

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// StartSpan starts the span of a request to an upstream.
func StartSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	return StartSpanOf(ctx, "tipcache/upstream", name, trace.SpanKindClient)
}

// StartSpanOf starts a child of ctx's span with the given tracer and kind. If ctx has no span or its trace is not
// sampled, the new span does nothing. Attributes must not contain credentials.
func StartSpanOf(ctx context.Context, tracer, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.SpanContext().IsSampled() {
		return ctx, noop.Span{}
	}
	return parent.TracerProvider().Tracer(tracer).Start(ctx, name, trace.WithSpanKind(kind))
}

// EndSpan ends a span and records err unless it is nil.
func EndSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// PassTrace adds the trace of ctx to the headers of a request, whether it is sampled or not.
func PassTrace(ctx context.Context, to http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(to))
}
