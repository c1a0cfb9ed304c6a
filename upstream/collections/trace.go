package collections

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/upstream"
)

// endSpan says of a query's span what it came to.
func (s *Store) endSpan(span trace.Span, page Page, err error) {
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("tipcache.store", s.name),
			attribute.Int("tipcache.items", len(page.Items)),
			attribute.Int64("tipcache.total", page.Total),
		)
	}
	upstream.EndSpan(span, err)
}
