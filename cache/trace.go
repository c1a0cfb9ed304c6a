package cache

import (
	"cmp"
	"context"
	"hash/fnv"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// describe says of a flight's span what the flight came to.
func (f *flight) describe(ctx context.Context, span trace.Span, l flightResult, err error) {
	outcome := cmp.Or(l.store, "origin")
	if err != nil {
		outcome = "failed"
	}
	span.SetAttributes(
		attribute.String("tipcache.key_hash", keyHash(f.q.Key)),
		attribute.Bool("tipcache.background", InBackground(ctx)),
		attribute.String("tipcache.outcome", outcome),
	)
	if l.at != nil {
		span.SetAttributes(attribute.Int64("tipcache.height", l.at.entry.Height))
	}
}

// keyHash names a key in traces: keys are as long as requests.
func keyHash(key string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return strconv.FormatUint(h.Sum64(), 16)
}
