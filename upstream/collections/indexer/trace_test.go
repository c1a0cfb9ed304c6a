package indexer_test

import (
	"slices"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestFetchAndPreloadAreTraced(t *testing.T) {
	h := newHistory(13, 100)
	spans := tracetest.NewSpanRecorder()
	o := quick(openMemory(t), serveEVM(t, h, faults{}))
	o.Tracing = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	run(t, o)
	names := map[trace.SpanID]string{}
	for _, s := range spans.Ended() {
		names[s.SpanContext().SpanID()] = s.Name()
	}
	var got []string
	for _, s := range spans.Ended() {
		got = append(got, names[s.Parent().SpanID()]+" > "+s.Name())
	}
	slices.Sort(got)
	want := []string{
		" > indexer.apply", " > indexer.fetch", "indexer.apply > collections.apply",
		"indexer.apply > collections.owners", "indexer.apply > evm.request", "indexer.fetch > evm.request",
	}
	expect.NoDiff(t, slices.Compact(got), want, "spans")
}
