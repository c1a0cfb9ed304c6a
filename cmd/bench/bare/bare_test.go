package bare

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestServersAnswerAlike(t *testing.T) {
	answers := []*Answer{{Path: "/a", ETag: `"x"`, Body: map[string]Bytes{
		"": {Header: http.Header{"Etag": {`"x"`}}, Body: []byte("plain")}, "gzip": {Body: []byte("zipped")}, "304": {},
	}}}
	for _, kind := range []string{Net, Gin} {
		h := handler(kind, answers, "")
		for header, want := range map[string]string{"": "200 plain", "Accept-Encoding: gzip": "200 zipped", `If-None-Match: "x"`: "304 "} {
			r := httptest.NewRequest(http.MethodGet, "/a", http.NoBody)
			if name, value, ok := strings.Cut(header, ": "); ok {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if got := w.Result().Status[:4] + w.Body.String(); got != want {
				t.Errorf("%s, %q: %q, want %q", kind, header, got, want)
			}
		}
	}
}
