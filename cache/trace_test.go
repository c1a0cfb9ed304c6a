package cache_test

import (
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestFlightIsTracedInItsRequest(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	c := startReplicaOf(t, redistest.Client(t, startRedis(t).addr), "story-1", redis.Options{})
	get := func(name string, tip int64, origin originFunc) {
		ctx, request := provider.Tracer("test").Start(t.Context(), name)
		_, _ = c.Get(ctx, cache.Query{Key: "k", Policy: live, Tip: tip}, origin)
		request.End()
		waitForIdle(t, c)
	}
	get("cold", 100, answer(100, page))
	get("hit", 100, nil)
	get("stale", 105, answer(105, page))
	get("failing", 150, down)

	var got []string
	names := map[string]string{}
	for _, s := range spans.GetSpans() {
		names[s.SpanContext.SpanID().String()] = s.Name
	}
	for _, s := range spans.GetSpans() {
		line := names[s.Parent.SpanID().String()] + " > " + s.Name
		for _, key := range []attribute.Key{"tipcache.outcome", "tipcache.reply"} {
			for _, a := range s.Attributes {
				if a.Key == key {
					line += ": " + a.Value.AsString()
				}
			}
		}
		if s.Parent.IsValid() {
			got = append(got, line)
		}
	}
	want := []string{
		"cold > redis.load",
		"cache.flight > redis.acquire: granted", "cache.flight > redis.settle: done", "cold > cache.flight: origin",
		"cache.flight > redis.acquire: granted", "cache.flight > redis.settle: done", "stale > cache.flight: origin",
		"cache.flight > redis.acquire: granted", "failing > cache.flight: failed",
	}
	slices.Sort(want) // a flight may end before or after its write
	slices.Sort(got)
	expect.NoDiff(t, got, want, "spans")
}
