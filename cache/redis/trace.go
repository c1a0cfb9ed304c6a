package redis

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache/tracing"
)

func startSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	return tracing.Start(ctx, "tipcache/cache/redis", name)
}

// endLease says of a lease's span what the store replied.
func endLease(span trace.Span, reply string, err error) {
	span.SetAttributes(attribute.String("tipcache.reply", reply))
	tracing.End(span, err)
}
