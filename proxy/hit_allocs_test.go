package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/web"
)

// discardWriter is a ResponseWriter that does not allocate.
type discardWriter struct{ header http.Header }

func (d *discardWriter) Header() http.Header         { return d.header }
func (d *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (d *discardWriter) WriteHeader(int)             {}

func TestHitAllocatesLittle(t *testing.T) {
	tests := []struct {
		name    string
		origins []string
		headers []string
	}{
		{"a plain body", nil, nil},
		{"gzip", nil, []string{"Accept-Encoding", "gzip, deflate"}},
		{"the codings of browsers", nil, []string{"Accept-Encoding", "gzip, deflate, br, zstd", "Origin", "https://app.example"}},
		{"a listed origin", []string{"https://app.example"}, []string{"Accept-Encoding", "zstd", "Origin", "https://app.example"}},
		{"a response without a body", nil, []string{"Accept-Encoding", "br", "If-None-Match", "*"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, _ := newChainProxy(t, proxy.Options{Web: web.Options{CORSOrigins: tt.origins}})
			r := httptest.NewRequest(http.MethodGet, "/staking/validators", nil)
			for i := 0; i < len(tt.headers); i += 2 {
				r.Header.Set(tt.headers[i], tt.headers[i+1])
			}
			w := &discardWriter{http.Header{}}
			if n := testing.AllocsPerRun(500, func() { h.ServeHTTP(w, r) }); n > 10 { // 8, and refills of pools
				t.Errorf("allocations of a hit = %v, want at most 10", n)
			}
		})
	}
}
