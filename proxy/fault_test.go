package proxy_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestNodeBehindTipIsNotAClientError(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.chain.answerWith(func(node.Request) (*node.Answer, error) {
		return findRecording(t, "height_rewards_d2_next").answer(), nil
	})
	s.get(t, anyPath).expectRefusal(t, 502, `{"code":502,"msg":{},"error":"the chain node is behind the newest block"}`+"\n")
}

func TestPanicIsAnInternalErrorAndLogged(t *testing.T) {
	var log logtest.Log
	s := startChain(t, proxy.Options{Web: web.Options{Record: record.Options{AccessLog: &log}, Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	s.chain.loseTip()
	s.chain.change(func(f *fakeChain) { f.onTip = func() { panic("no tip") } })
	s.get(t, anyPath).expectRefusal(t, 500, `{"code":500,"msg":{},"error":"internal error"}`+"\n")
	if text := log.String(); !strings.Contains(text, "panic: no tip") || !strings.Contains(text, "chain_fake_test.go") {
		t.Errorf("log = %s, want the panic with its stack", text)
	}
}

func TestEveryRequestIsLoggedOnce(t *testing.T) {
	var log logtest.Log
	s := startChain(t, proxy.Options{Web: web.Options{Record: record.Options{AccessLog: &log}, Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	began := time.Now()
	s.get(t, anyPath+"?x=y", "X-Request-Id", "a")
	s.get(t, anyPath, "X-Request-Id", "b")
	s.get(t, "/staking/validators/%22%FF%0A", "X-Request-Id", "c")
	s.chain.failWith(&upstream.Error{Kind: upstream.Timeout, Msg: "too late", Err: errors.New("after 5s")})
	s.get(t, "/mint/params", "X-Request-Id", "d")
	expect.EventuallyEqual(t, "four log lines", func() int { return strings.Count(log.String(), "\n") }, 4)
	want := `{"level":"INFO","msg":"request","method":"GET","route":"pool","path":"/staking/pool","query":"x=y","user_agent":"Go-http-client/1.1","status":200,"bytes":117,"outcome":"miss","store":"","height":228,"tip":228,"request_id":"a","client":"127.0.0.1"}
{"level":"INFO","msg":"request","method":"GET","route":"pool","path":"/staking/pool","user_agent":"Go-http-client/1.1","status":200,"bytes":117,"outcome":"hit","store":"memory","height":228,"tip":228,"request_id":"b","client":"127.0.0.1"}
{"level":"INFO","msg":"request","method":"GET","route":"validator","path":"/staking/validators/\"\ufffd\n","user_agent":"Go-http-client/1.1","status":400,"bytes":129,"outcome":"refused","store":"","height":0,"tip":0,"request_id":"c","client":"127.0.0.1","error":"validator_addr is \"\\\"\\xff\\n\"; expected 0x and 40 hex digits, or a storyvaloper1... address"}
{"level":"ERROR","msg":"request","method":"GET","route":"mint_params","path":"/mint/params","user_agent":"Go-http-client/1.1","status":504,"bytes":41,"outcome":"failed","store":"","height":0,"tip":228,"request_id":"d","client":"127.0.0.1","error":"too late: after 5s"}
`
	expect.NoDiff(t, withoutLogTimes(t, log.String(), began), want, "log")
}

var timesInLog = regexp.MustCompile(`"(time|duration_ms|age_s)":[^,]*,`)

// withoutLogTimes removes times from log lines, after checking that they lie within the test.
func withoutLogTimes(t *testing.T, text string, began time.Time) (lines string) {
	t.Helper()
	for line := range strings.Lines(text) {
		at, err := time.Parse(time.RFC3339Nano, gjson.Get(line, "time").Str)
		if err != nil || at.Before(began.Truncate(0)) || time.Since(at) < 0 {
			t.Errorf("time = %v, %v; want a time since %v", at, err, began)
		}
		for _, name := range []string{"duration_ms", "age_s"} {
			if n := gjson.Get(line, name); n.Type != gjson.Number || n.Float() < 0 || n.Float() > time.Since(began).Seconds()*1000 {
				t.Errorf("%s = %s, want a number within the duration of the test", name, n.Raw)
			}
		}
		lines += timesInLog.ReplaceAllString(line, "")
	}
	return lines
}

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
	s := startChain(t, proxy.Options{Web: web.Options{Record: record.Options{Tracing: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(never)), AccessLog: &log}, Logger: slog.New(slog.NewTextHandler(&log, nil)), Limits: limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}})
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
