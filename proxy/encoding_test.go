package proxy_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// longPath is a path whose answer is worth compressing.
const longPath = "/staking/validators"

// startPlainChain is startChain for a client that decodes nothing by itself.
func startPlainChain(t *testing.T, o proxy.Options) *chainService {
	t.Helper()
	s := startChain(t, o)
	s.Client().Transport.(*http.Transport).DisableCompression = true
	return s
}

// decode undoes a content coding.
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
		t.Fatalf("nobody asked for %q", coding)
	}
	plain, err := io.ReadAll(from)
	if err != nil {
		t.Fatalf("%s: %v", coding, err)
	}
	return string(plain)
}

func TestBodyIsEncodedOnce(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := startPlainChain(t, proxy.Options{Web: web.Options{Registerer: registry}})
	tag := s.get(t, longPath).header.Get("Etag")
	s.get(t, longPath, "Accept-Encoding", "zstd", "If-None-Match", tag) // which needs no body
	for range 3 {
		s.get(t, longPath, "Accept-Encoding", "br")
		s.get(t, longPath, "Accept-Encoding", "gzip")
		s.chain.grow(1) // and changes nothing
		s.get(t, longPath)
	}
	want := []string{`coding:"br" 1`, `coding:"gzip" 1`, `coding:"zstd" 0`}
	expect.NoDiff(t, counted(t, registry, "tipcache_cache_encodings_total"), want, "encoded")
}

// FuzzAcceptEncoding: whatever is sent, the answer is in a coding that was named
// and decodes to the plain one.
func FuzzAcceptEncoding(f *testing.F) {
	for _, sent := range []string{"gzip, deflate, br, zstd", "br;q=0.5,*;q=0.1", "identity;q=0", "x-gzip;q=1.000", "*;q=0", ";;,=q", "gzip;q=1.", "gzip;q=1.1"} {
		f.Add(sent)
	}
	h, _ := newChainProxy(f, proxy.Options{})
	plain := inProcess(h, longPath, "").Body.String()
	f.Fuzz(func(t *testing.T, sent string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: longPath}, Header: http.Header{"Accept-Encoding": {sent}}, Body: http.NoBody})
		coding := w.Header().Get("Content-Encoding")
		if !strings.Contains(strings.ToLower(sent), coding) && !strings.Contains(sent, "*") {
			t.Errorf("%q got %s", sent, coding)
		}
		if w.Code == http.StatusOK && !bytes.Equal([]byte(decode(t, coding, w.Body.String())), []byte(plain)) {
			t.Errorf("%q got another body in %q", sent, coding)
		}
	})
}
