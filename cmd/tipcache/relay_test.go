package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

// relay starts a proxy for target. handle responds to each request, or calls next, which forwards it.
func relay(t *testing.T, target string, handle func(next http.Handler, w http.ResponseWriter, r *http.Request)) *httptest.Server {
	t.Helper()
	to := expect.Value(url.Parse(target))(t)
	next := httputil.NewSingleHostReverseProxy(to)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(next, w, r) }))
	t.Cleanup(s.Close)
	return s
}

// rewriting starts a proxy for target that changes the bodies of its responses.
func rewriting(t *testing.T, target string, change func(path string, body []byte) []byte) (address string) {
	t.Helper()
	return relay(t, target, func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			next.ServeHTTP(w, r)
			return
		}
		recorder := httptest.NewRecorder()
		next.ServeHTTP(recorder, r)
		maps.Copy(w.Header(), recorder.Header())
		w.Header().Del("Content-Length")
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(change(r.URL.Path, recorder.Body.Bytes()))
	}).URL
}
