package record_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestOnlyTrustedProxiesDecideWhatIsTraced(t *testing.T) {
	const (
		trace   = "0af7651916cd43dd8448eb211c80319c"
		low     = "00000000000000000000000000000001" // which every sampler by ratio includes
		sampled = "00-" + trace + "-b7ad6b7169203331-01"
		dropped = "00-" + trace + "-b7ad6b7169203331-00"
	)
	for name, tt := range map[string]struct {
		parent    string
		fromProxy bool
		ratio     float64
		spans     int
		joins     bool // the span belongs to the trace of the client
	}{
		"sampled by a proxy":                {sampled, true, 0, 1, true},
		"not sampled by a proxy":            {dropped, true, 1, 0, false},
		"sampled by a stranger":             {sampled, false, 0, 0, false},
		"not sampled by a stranger":         {dropped, false, 1, 1, false},
		"trace id chosen by a stranger":     {"00-" + low + "-b7ad6b7169203331-01", false, 1e-9, 0, false},
		"malformed traceparent of a proxy":  {"00-aa-bb-01", true, 0, 0, false},
		"no traceparent, all are traced":    {"", false, 1, 1, false},
		"no traceparent, none are sampled":  {"", true, 0, 0, false},
		"sampled by a proxy, all are taken": {sampled, true, 1, 1, true},
	} {
		spans := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(record.Sampler(tt.ratio)))
		r := record.New(record.Options{Tracing: provider, TraceRatio: tt.ratio, FromProxy: func(*http.Request) bool { return tt.fromProxy }})
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/staking/params", nil)
		request.Header.Set("Traceparent", tt.parent)
		request.Header.Set("Tracestate", "vendor=value")
		rec := &record.Record{Route: "params", ID: [1]string{"id"}}
		r.Begin(request, rec)
		r.End(rec, &record.End{Head: record.HeadOf(request, ""), Status: http.StatusOK}, nil)
		got := spans.GetSpans()
		expect.Equal(t, len(got), tt.spans, "%s: spans", name)
		for _, s := range got {
			expect.Equal(t, s.SpanContext.TraceID().String() == trace, tt.joins, "%s: span is in the client's trace", name)
			if isLinked := len(s.Links) > 0 && s.Links[0].SpanContext.TraceID().String() == trace; isLinked != (tt.parent != "" && !tt.joins) {
				t.Errorf("%s: links = %v", name, s.Links)
			}
		}
	}
}
