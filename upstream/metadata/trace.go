package metadata

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/upstream"
)

// startSpan begins the span of one batch. Several pages may share it; it goes
// into the first trace among theirs that is sampled.
func (s *Service) startSpan(ctx context.Context, addresses []string) (context.Context, trace.Span) {
	return upstream.StartSpan(trace.ContextWithSpan(ctx, s.queue.span(addresses)), "metadata.batch")
}

// endSpan says of a batch's span what it came to.
func endSpan(span trace.Span, asked, learned int, err error) {
	span.SetAttributes(
		attribute.Int("tipcache.contracts", asked),
		attribute.Int("tipcache.learned", learned),
	)
	upstream.EndSpan(span, err)
}

// span is that of a page which waits for one of the addresses, of a sampled
// trace if there is one; nil if nobody waits.
func (q *queue) span(addresses []string) (of trace.Span) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range addresses {
		f := q.flights[a]
		if f == nil {
			continue
		}
		if of = f.span; of.SpanContext().IsSampled() {
			break
		}
	}
	return of
}
