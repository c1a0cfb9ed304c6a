package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/expect"
)

// longPath is a path whose response is long enough to be compressed.
const longPath = "/staking/validators"

// decode decodes a body in a content coding.
func decode(t testing.TB, coding, body string) string {
	t.Helper()
	var from io.Reader = strings.NewReader(body)
	switch coding {
	case "":
		return body
	case "gzip":
		r := expect.Value(gzip.NewReader(from))(t)
		r.Multistream(false) // browsers read the first member only
		from = r
	case "zstd":
		r := expect.Value(zstd.NewReader(from))(t)
		defer r.Close()
		from = r
	case "br":
		from = brotli.NewReader(from)
	default:
		t.Fatalf("Content-Encoding = %q, want gzip, zstd or br", coding)
	}
	return string(expect.Value(io.ReadAll(from))(t))
}

// FuzzAcceptEncoding checks that the client accepts the coding of the response, and that the body decodes to the plain one.
func FuzzAcceptEncoding(f *testing.F) {
	for _, sent := range []string{"gzip, deflate, br, zstd", "br;q=0.5,*;q=0.1", "identity;q=0", "x-gzip;q=1.000", "*;q=0", ";;,=q", "gzip;q=1.", "gzip;q=1.1"} {
		f.Add(sent)
	}
	h, _ := newChainProxy(f, proxy.Options{})
	plain := serveGET(h, longPath, "").Body.String()
	f.Fuzz(func(t *testing.T, sent string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: longPath}, Header: http.Header{"Accept-Encoding": {sent}}, Body: http.NoBody})
		coding := w.Header().Get("Content-Encoding")
		if !strings.Contains(strings.ToLower(sent), coding) && !strings.Contains(sent, "*") {
			t.Errorf("Content-Encoding for %q = %s, want an accepted one", sent, coding)
		}
		if w.Code == http.StatusOK && decode(t, coding, w.Body.String()) != plain {
			t.Errorf("body for %q in coding %q differs from the plain body", sent, coding)
		}
	})
}
