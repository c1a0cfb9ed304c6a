package proxy_test

import (
	"net/http"
	"testing"

	listing "github.com/tipcache/tipcache/proxy/collections"
)

func TestAQueryListsAsAPostDoes(t *testing.T) {
	s := startList(t, listing.Options{})
	body := `{"pagination":{"limit":2}}`
	posted, want := s.post(t, body)
	for range 2 {
		res, text := s.send(t, "QUERY", listPath, body)
		if res.StatusCode != http.StatusOK || text != want || res.Header.Get("Etag") != posted.Header.Get("Etag") {
			t.Errorf("%s, %s: %s", res.Status, res.Header.Get("Etag"), text)
		}
	}
	if res, text := s.send(t, "QUERY", listPath, body, "If-None-Match", posted.Header.Get("Etag")); res.StatusCode != http.StatusNotModified || text != "" {
		t.Errorf("%s for what the client has: %s", res.Status, text)
	}
	if calls := s.store.calls.Load(); calls != 1 {
		t.Errorf("the store was asked %d times", calls)
	}
	for status, request := range map[int][3]string{
		http.StatusUnauthorized:         {body, "X-Api-Key", "wrong"},
		http.StatusUnsupportedMediaType: {body, "Content-Type", "text/plain"},
		http.StatusUnprocessableEntity:  {`{"pagination":{"limit":0}}`, "X-Test", ""},
		http.StatusBadRequest:           {``, "X-Test", ""},
	} {
		if res, text := s.send(t, "QUERY", listPath, request[0], request[1], request[2]); res.StatusCode != status || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s, want %d: %s", res.Status, status, text)
		}
	}
	for method, status := range map[string]int{"query": http.StatusMethodNotAllowed, "PUT": http.StatusMethodNotAllowed} {
		if res, _ := s.send(t, method, listPath, body); res.StatusCode != status || res.Header.Get("Allow") != "POST, QUERY" {
			t.Errorf("%s: %s, Allow: %s", method, res.Status, res.Header.Get("Allow"))
		}
	}
	res, _ := s.send(t, http.MethodOptions, listPath, "", "Origin", "https://a.example", "Access-Control-Request-Method", "QUERY")
	if res.StatusCode != http.StatusNoContent || res.Header.Get("Access-Control-Allow-Methods") != "GET, HEAD, POST, QUERY" {
		t.Errorf("a preflight: %s, %v", res.Status, res.Header)
	}
}
