package web_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestHealthFollowsReadiness(t *testing.T) {
	ready := web.NewReadiness()
	s, _ := newServer(web.Options{Readiness: ready}, &strings.Builder{})
	get := func(target string) (int, string) {
		w := httptest.NewRecorder()
		if !s.ServeHealth(w, httptest.NewRequest(http.MethodGet, target, nil)) {
			t.Fatalf("ServeHealth did not answer %s", target)
		}
		return w.Code, w.Body.String()
	}
	check := func(when string, want map[string]int) {
		t.Helper()
		for target, status := range want {
			got, body := get(target)
			word := map[int]string{http.StatusOK: "ready\n", http.StatusServiceUnavailable: "unready\n"}[status]
			if got != status || body != word {
				t.Errorf("%s %s = %d %q, want %d %q", target, when, got, body, status, word)
			}
		}
		if got, body := get("/healthz"); got != http.StatusOK || body != "alive\n" {
			t.Errorf("/healthz %s = %d %q, want 200 alive", when, got, body)
		}
	}
	const yes, no = http.StatusOK, http.StatusServiceUnavailable
	check("at the start", map[string]int{"/readyz": no, "/readyz?require=node": no})
	ready.Set(true, map[string]error{"node": nil, "store": errors.New("down")})
	check("without the store", map[string]int{
		"/readyz": yes, "/readyz?other=1": yes, "/readyz?require=node": yes, "/readyz?require=store": no,
		"/readyz?require=node&require=store": no, "/readyz?require=cache": no, "/readyz?require=": no,
	})
	ready.Set(false, map[string]error{"node": nil})
	check("with a problem", map[string]int{"/readyz": no, "/readyz?require=node": no})
	ready.Set(true, map[string]error{"node": nil})
	_, changed := ready.State()
	ready.Drain()
	select {
	case <-changed:
	default:
		t.Error("channel of State still open after Drain")
	}
	ready.Set(true, map[string]error{"node": nil}) // a check that began before the drain
	check("during the drain", map[string]int{"/readyz": no, "/readyz?require=node": no})
}

func TestHealthIsAnsweredWithoutRulesRatesAndRecords(t *testing.T) {
	lines := &strings.Builder{}
	s, _ := newServer(web.Options{
		SessionCookie: true,
		Limits: limits.Limits{
			Address: limits.Rate{Requests: 1, Burst: 1, Per: 1 << 40}, Access: []limits.Rule{{Deny: true, Patterns: []string{"*"}}},
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		},
	}, lines)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodGet, http.MethodGet} {
		w := httptest.NewRecorder()
		expect.Equal(t, s.ServeHealth(w, httptest.NewRequest(method, "/readyz", nil)), true, "answered")
		expect.Equal(t, w.Code, http.StatusOK, "status of %s", method)
		expect.NoDiff(t, w.Result().Header, http.Header{
			"Content-Type": {"text/plain; charset=utf-8"}, "Content-Length": {"6"}, "Cache-Control": {"no-store"},
		}, "headers of %s", method)
		expect.Equal(t, w.Body.String(), map[string]string{http.MethodGet: "ready\n"}[method], "body of %s", method)
	}
	expect.Equal(t, lines.String(), "", "access log")
	for _, target := range []string{"/readyz/", "/ready", "/api/readyz", "/"} {
		if s.ServeHealth(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil)) {
			t.Errorf("%s was answered as a health check", target)
		}
	}
	if s.ServeHealth(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/readyz", nil)) {
		t.Error("a POST was answered as a health check")
	}
}

func TestHealthAllocatesConstantMemory(t *testing.T) {
	ready := web.NewReadiness()
	ready.Set(true, map[string]error{"node": nil})
	s, _ := newServer(web.Options{Readiness: ready}, &strings.Builder{})
	allocations := func(target string) float64 {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		return testing.AllocsPerRun(100, func() { s.ServeHealth(httptest.NewRecorder(), r) })
	}
	short, long := allocations("/readyz"), allocations("/readyz?"+strings.Repeat("require=node&", 5000))
	expect.Equal(t, long, short, "allocations for a long query")
}
