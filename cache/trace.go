package cache

import (
	"context"
	"hash/fnv"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// startSpan begins a span below the one of ctx, for whoever collects that.
// Where ctx has none, or its trace is not sampled, the span does nothing.
// A flight outlives the request it began with, but stays in its trace.
func startSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	above := trace.SpanFromContext(ctx)
	if !above.SpanContext().IsSampled() {
		return ctx, noop.Span{}
	}
	return above.TracerProvider().Tracer("tipcache/cache").Start(ctx, name)
}

// endSpan ends a span, with what went wrong unless err is nil.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// endFlight says of a flight's span what the flight came to.
func (f *flight) endFlight(ctx context.Context, span trace.Span, r flightResult, err error) {
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("tipcache.key_hash", keyHash(f.q.Key)),
			attribute.Bool("tipcache.background", InBackground(ctx)),
			attribute.String("tipcache.outcome", r.outcome(err)),
		)
		if r.at != nil {
			span.SetAttributes(attribute.Int64("tipcache.height", r.at.entry.Height))
		}
	}
	endSpan(span, err)
}

// outcome is where the answer came from, or that there is none.
func (r flightResult) outcome(err error) string {
	switch {
	case err != nil:
		return "failed"
	case r.store == fromOrigin:
		return "origin"
	default:
		return r.store
	}
}

// keyHash names a key in traces: keys are as long as requests.
func keyHash(key string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return strconv.FormatUint(h.Sum64(), 16)
}
