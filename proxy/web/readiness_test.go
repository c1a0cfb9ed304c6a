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
	_, handler := newServer(web.Options{Readiness: ready}, &strings.Builder{})
	get := func(target string) (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
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
	_, handler := newServer(web.Options{
		Settings: web.Settings{SessionCookie: true},
		Limits: limits.Limits{
			Address: limits.Rate{Requests: 1, Burst: 1, Per: 1 << 40}, Access: []limits.Rule{{Deny: true, Patterns: []string{"*"}}},
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		},
	}, lines)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodGet, http.MethodGet} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, "/readyz", nil))
		expect.Equal(t, w.Code, http.StatusOK, "status of %s", method)
		expect.NoDiff(t, w.Result().Header, http.Header{
			"Content-Type": {"text/plain; charset=utf-8"}, "Content-Length": {"6"}, "Cache-Control": {"no-store"},
		}, "headers of %s", method)
		expect.Equal(t, w.Body.String(), map[string]string{http.MethodGet: "ready\n"}[method], "body of %s", method)
	}
	expect.Equal(t, lines.String(), "", "access log")
	for target, method := range map[string]string{"/readyz/": http.MethodGet, "/ready": http.MethodGet, "/api/readyz": http.MethodGet, "/": http.MethodGet, "/readyz": http.MethodPost} {
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, httptest.NewRequest(method, target, nil)); w.Header().Get("X-Request-Id") == "" {
			t.Errorf("%s %s was answered as a health check", method, target)
		}
	}
}

func TestHealthIsLeftToAPathOfTheEngine(t *testing.T) {
	s := web.New(web.Options{}, nil)
	engine := s.NewEngine(nil, func(*web.Request) web.Route {
		return web.Route{Serve: func(r *web.Request) error { r.Send(299, "text/plain", nil); return nil }}
	})
	handler := s.Handler(func(path string) bool { return path == web.ReadyPath }, engine)
	for path, want := range map[string]int{web.ReadyPath: 299, web.HealthPath: http.StatusOK} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		expect.Equal(t, w.Code, want, "status of %s", path)
	}
}

func TestHealthAllocatesConstantMemory(t *testing.T) {
	ready := web.NewReadiness()
	ready.Set(true, map[string]error{"node": nil})
	_, handler := newServer(web.Options{Readiness: ready}, &strings.Builder{})
	allocations := func(target string) float64 {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		return testing.AllocsPerRun(100, func() { handler.ServeHTTP(httptest.NewRecorder(), r) })
	}
	short, long := allocations("/readyz"), allocations("/readyz?"+strings.Repeat("require=node&", 5000))
	expect.Equal(t, long, short, "allocations for a long query")
}
