package cache

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache/tracing"
)

// endFlight says of a flight's span what the flight came to.
func (f *flight) endFlight(ctx context.Context, span trace.Span, r flightResult, err error) {
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("tipcache.key_hash", tracing.KeyHash(f.q.Key)),
			attribute.Bool("tipcache.background", InBackground(ctx)),
			attribute.String("tipcache.outcome", r.outcome(err)),
		)
		if r.at != nil {
			span.SetAttributes(attribute.Int64("tipcache.height", r.at.entry.Height))
		}
	}
	tracing.End(span, err)
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
