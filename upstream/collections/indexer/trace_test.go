package indexer_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func TestFetchAndPreloadAreTraced(t *testing.T) {
	h := newHistory(13)
	h.grow(100)
	spans := tracetest.NewSpanRecorder()
	o := quick(open(t, memory(t)), serveEVM(t, h, faults{}))
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
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("spans (-want +got)\n%s", diff)
	}
}
