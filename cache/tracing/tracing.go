// Package tracing makes the spans of the cache and of its shared store.
package tracing

import (
	"context"
	"hash/fnv"
	"strconv"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Start begins a span below the one of ctx, for the collector of its trace. Where ctx
// has none, or its trace is not sampled, the span does nothing. A flight outlives
// the request it began with, but stays in its trace.
func Start(ctx context.Context, tracer, name string) (context.Context, trace.Span) {
	above := trace.SpanFromContext(ctx)
	if !above.SpanContext().IsSampled() {
		return ctx, noop.Span{}
	}
	return above.TracerProvider().Tracer(tracer).Start(ctx, name)
}

// End ends a span, with what went wrong unless err is nil.
func End(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// KeyHash names a key in traces: keys are as long as requests.
func KeyHash(key string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return strconv.FormatUint(h.Sum64(), 16)
}
