package indexer

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tipcache/tipcache/upstream"
)

// startTrace begins the trace of one piece of work. Windows are fetched ahead
// and written together, so that both have traces of their own.
func (x *Indexer) startTrace(ctx context.Context, name string, s span) (context.Context, trace.Span) {
	if x.o.Tracing == nil {
		return ctx, noop.Span{}
	}
	return x.o.Tracing.Tracer("tipcache/indexer").Start(ctx, name,
		trace.WithAttributes(attribute.Int64("tipcache.from", s.from), attribute.Int64("tipcache.to", s.to)))
}

// endTrace says what came of it; b is nil when nothing did.
func endTrace(span trace.Span, b *blocks, err error) {
	if b != nil && span.IsRecording() {
		span.SetAttributes(attribute.Int64("tipcache.to", b.to), attribute.Int("tipcache.events", len(b.events)))
	}
	upstream.EndSpan(span, err)
}
