package upstream

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// StartSpan begins the span of one call of an origin, as StartSpanOf does.
func StartSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	return StartSpanOf(ctx, "tipcache/upstream", name, trace.WithSpanKind(trace.SpanKindClient))
}

// StartSpanOf begins a span of a part of tipcache, the tracer, below the span of ctx and
// with the provider of that. Where ctx has none, or its trace is not sampled, the
// span does nothing. No attribute may hold a credential.
func StartSpanOf(ctx context.Context, tracer, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	above := trace.SpanFromContext(ctx)
	if !above.SpanContext().IsSampled() {
		return ctx, noop.Span{}
	}
	return above.TracerProvider().Tracer(tracer).Start(ctx, name, o...)
}

// EndSpan ends a span, with what went wrong unless err is nil.
func EndSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// PassTrace tells an origin of the trace it is called in, sampled or not.
func PassTrace(ctx context.Context, to http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(to))
}
