package node

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

// newerNode starts a node of a newer release, with paths that tipcache does not know.
func newerNode(t *testing.T, handlers map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc(storyProbe, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"code":200,"msg":{},"error":""}`))
	})
	for path, h := range handlers {
		mux.HandleFunc(path, h)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func TestUnknownPathsAreClassified(t *testing.T) {
	respond := func(status int, typ, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", typ)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	const good, bad = `{"code":200,"msg":{},"error":""}`, `{"code":500,"msg":null,"error":"validator does not exist"}`
	server := newerNode(t, map[string]http.HandlerFunc{
		"/json": respond(200, "application/json", good), "/error": respond(500, "application/json", bad), "/enveloped": respond(404, "application/json", bad),
		"/moved": respond(301, "text/html", "<a>"), "/movedjson": respond(308, "application/json", good), "/html": respond(200, "text/html; charset=utf-8", "<html>"), "/json404": respond(404, "application/json", "{}"),
		"/html502": respond(502, "text/html", "<html>"), "/text": respond(200, "text/plain", good), "/stream": respond(200, "text/event-stream", "data: 1\n\n"), "/bare": respond(200, "application/json", `{"a":1}`),
		"/long": respond(200, "application/json", `{"code":200,"msg":"`+strings.Repeat("x", unknownBody)+`","error":""}`),
	})
	p := newPool(t, Options{Endpoints: []Endpoint{{REST: server.URL}}})
	for path, want := range map[string]string{
		"/json": "ok", "/error": "not_found", "/enveloped": "not_found",
		"/moved": "no path", "/movedjson": "no path", "/html": "no path", "/json404": "no path", "/absent": "no path",
		"/html502": "bad_answer", "/text": "bad_answer", "/stream": "bad_answer", "/bare": "bad_answer", "/long": "bad_answer",
	} {
		a, err := p.Fetch(t.Context(), Request{Path: path, Height: AtTip, Unpinned: true, Cost: Unknown})
		got := labelOf(a, err)
		if a != nil && a.NoPath {
			got = "no path"
		}
		if got != want {
			t.Errorf("outcome of %s = %s (%v), want %s", path, got, err, want)
		}
	}
}

// The pool keeps using the node, and does not try another one.
func TestFailuresOfUnknownRequestsDoNotCountAgainstTheNode(t *testing.T) {
	t.Parallel()
	requests := make(chan string, 1000)
	hang := func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Host
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	one, two := newerNode(t, map[string]http.HandlerFunc{"/hang": hang}), newerNode(t, map[string]http.HandlerFunc{"/hang": hang})
	p := newPool(t, Options{Settings: Settings{Timeout: 20 * time.Millisecond}, Endpoints: []Endpoint{{REST: one.URL}, {REST: two.URL}}})
	const times = 2 * maxFailures
	for range times {
		_, err := p.Fetch(t.Context(), Request{Path: "/hang", Height: AtTip, Unpinned: true, Cost: Unknown})
		if upstream.KindOf(err) != upstream.Timeout {
			t.Errorf("Fetch = %v, want a timeout", err)
		}
	}
	if n := len(requests); n > times {
		t.Errorf("node requests = %d for %d requests, want at most one each", n, times)
	}
	for _, e := range p.endpoints() {
		if v := e.snapshot(); e.restServer.isOpen() || e.restServer.failedLately() || v.restErr != nil {
			t.Errorf("node %s: breaker open %t, failed %t, error %v; want none", e.name, e.restServer.isOpen(), e.restServer.failedLately(), v.restErr)
		}
	}
	expect.Eventually(t, "an answer to a known path", func() bool {
		_, err := p.Fetch(t.Context(), Request{Path: storyProbe, Height: AtTip})
		return err == nil
	})
}
