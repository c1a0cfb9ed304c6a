package proxy_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

func attributeOf(s tracetest.SpanStub, key attribute.Key) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return fmt.Sprint(a.Value.AsInterface())
		}
	}
	return ""
}

func TestRequestOfSampledTraceIsASpan(t *testing.T) {
	const (
		sampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		unsampled = "00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203331-00"
	)
	var log logtest.Log
	spans := tracetest.NewInMemoryExporter()
	never := sdktrace.ParentBased(sdktrace.NeverSample())
	s := startChain(t, proxy.Options{Web: web.Options{Tracing: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(never)), AccessLog: &log, Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	s.get(t, anyPath, "Traceparent", sampled)
	s.get(t, anyPath, "Traceparent", unsampled)
	s.get(t, anyPath, "Traceparent", "nonsense")
	s.get(t, anyPath)
	s.chain.failWith(&upstream.Error{Kind: upstream.Unreachable, Msg: "the chain node cannot be reached", Err: errors.New("at 10.0.0.1")})
	s.get(t, "/mint/params", "Traceparent", sampled)

	var got []string
	for _, span := range spans.GetSpans() {
		if span.SpanContext.TraceID().String() != sampled[3:35] {
			t.Errorf("trace of span %s = %s, want %s", span.Name, span.SpanContext.TraceID(), sampled[3:35])
		}
		got = append(got, strings.TrimSpace(fmt.Sprint(span.Name, " ", attributeOf(span, "http.response.status_code"), " ", attributeOf(span, "tipcache.outcome"), " ", span.Status.Description)))
	}
	want := []string{"cache.flight  origin", "pool 200 miss", "cache.flight  failed the chain node cannot be reached: at 10.0.0.1", "mint_params 502 failed the chain node cannot be reached"}
	expect.NoDiff(t, got, want, "spans")
	if n := strings.Count(log.String(), `"trace_id":"`+sampled[3:35]); n != 2 || strings.Count(log.String(), "trace_id") != 2 {
		t.Errorf("log = %s, want two lines with the sampled trace", log.String())
	}
}
