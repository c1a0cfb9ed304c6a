package node

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/upstream"
)

// startSpan begins the span of one request to a node. Of the node's address it
// has only the name: the rest may hold a key.
func (e *endpoint) startSpan(ctx context.Context, r Request, height int64) (context.Context, trace.Span) {
	ctx, span := upstream.StartSpan(ctx, "node.request")
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("server.address", e.name),
			attribute.String("url.path", r.Path),
			attribute.String("tipcache.cost", r.Cost.String()),
			attribute.Int64("tipcache.height", height),
		)
	}
	return ctx, span
}

// endSpan says of a request's span what it came to.
func endSpan(span trace.Span, answer *Answer, err error) {
	if span.IsRecording() && answer != nil {
		span.SetAttributes(
			attribute.Int("http.response.status_code", answer.NodeStatus),
			attribute.String("tipcache.reason", answer.Reason.String()),
			attribute.Int("http.response.body.size", len(answer.Body)),
		)
	}
	upstream.EndSpan(span, err)
}
