package lane_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/upstream/expect"
)

// sendHits sends requests for one path in pipelines, and returns the number of spans and of answers of the lane.
func sendHits(t *testing.T, hits int, ratio float64, header string, trusted bool) (spans, answered int) {
	t.Helper()
	exporter, metrics := tracetest.NewInMemoryExporter(), prometheus.NewRegistry()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithSampler(record.Sampler(ratio)))
	p := startTracedProduct(t, lane.New(lane.Options{Registerer: metrics}), provider, ratio)
	if trusted {
		p.proxy.SetLimits(limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	}
	const pipelined = 50
	for sent := 0; sent < hits; sent += pipelined {
		w := p.dial()
		w.send([]byte(strings.Repeat(getPool+header+"\r\n", pipelined)))
		w.settle()
		w.end()
		w.waitClosed()
	}
	for _, s := range exporter.GetSpans() {
		if s.Name == "pool" {
			spans++
		}
	}
	return spans, int(expect.Metric(t, metrics, "tipcache_proxy_fast_lane_requests_total", "answered"))
}

func TestShareOfHitsIsTraced(t *testing.T) {
	const hits = 100_000
	spans, answered := sendHits(t, hits, 0.01, "", false)
	if least := hits * 7 / 10; spans < 900 || spans > 1100 || answered < least { // net/http may also serve the pipeline after a traced request
		t.Errorf("spans = %d with %d answers of the lane, want 900 to 1100 with at least %d", spans, answered, least)
	}
}

func TestFlagOfTrustedProxyDecidesInTheLane(t *testing.T) {
	const hits, parent = 1000, "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	for name, tt := range map[string]struct {
		flag    string
		trusted bool
		ratio   float64
		spans   int
	}{
		"not sampled by a proxy":    {"00", true, 1, 0},
		"sampled by a proxy":        {"01", true, 0, hits},
		"sampled by a stranger":     {"01", false, 0, 0},
		"not sampled by a stranger": {"00", false, 1, hits},
	} {
		spans, answered := sendHits(t, hits, tt.ratio, parent+tt.flag+"\r\n", tt.trusted)
		expect.Equal(t, spans, tt.spans, "%s: spans", name)
		if inLane := answered > hits/2; inLane != (tt.spans == 0) || tt.spans > 0 && answered > 0 {
			t.Errorf("%s: answers of the lane = %d, want them only for requests that are not traced", name, answered)
		}
	}
}
