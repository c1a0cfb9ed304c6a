package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// discard is a ResponseWriter that costs nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// measure serves one request over and over, through the whole handler.
func measure(b *testing.B, h http.Handler, target string, before func(), headers ...string) {
	b.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := &discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		before()
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// A hit has few allocations, in whatever coding, and origins add none.
func TestHitAllocatesLittle(t *testing.T) {
	tests := []struct {
		name    string
		origins []string
		headers []string
	}{
		{"a plain body", nil, nil},
		{"gzip", nil, []string{"Accept-Encoding", "gzip, deflate"}},
		{"what browsers accept", nil, []string{"Accept-Encoding", "gzip, deflate, br, zstd", "Origin", "https://app.example"}},
		{"a listed origin", []string{"https://app.example"}, []string{"Accept-Encoding", "zstd", "Origin", "https://app.example"}},
		{"an answer the client has", nil, []string{"Accept-Encoding", "br", "If-None-Match", "*"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, _ := newChainProxy(t, proxy.Options{Web: web.Options{CORSOrigins: tt.origins}})
			r := httptest.NewRequest(http.MethodGet, "/staking/validators", nil)
			for i := 0; i < len(tt.headers); i += 2 {
				r.Header.Set(tt.headers[i], tt.headers[i+1])
			}
			w := &discard{http.Header{}}
			if n := testing.AllocsPerRun(500, func() { h.ServeHTTP(w, r) }); n > 10 { // 8, and what pools forget
				t.Errorf("%v allocations, want 10 at most", n)
			}
		})
	}
}

func BenchmarkHit(b *testing.B) {
	for name, headers := range map[string][]string{
		"plain": nil, "gzip": {"Accept-Encoding", "gzip"}, "not modified": {"If-None-Match", "*"}, "of a page": {"Origin", "https://app.example"},
	} {
		b.Run(name, func(b *testing.B) {
			h, _ := newChainProxy(b, proxy.Options{})
			measure(b, h, "/staking/validators?pagination.limit=5&pagination.offset=10", func() {}, headers...)
		})
	}
}

// BenchmarkMiss reads an answer that differs at every block.
func BenchmarkMiss(b *testing.B) {
	for name, r := range map[string]recording{"item": recorded(b, "ok_validator_v5_bonded_unlocked"), "list": recorded(b, "ok_validators_default")} {
		for _, coding := range []string{"", "br"} {
			b.Run(strings.TrimSpace(name+" "+coding), func(b *testing.B) {
				h, chain := newChainProxy(b, proxy.Options{})
				n, digit := 0, strings.Index(r.Raw, `"tokens":"`)+len(`"tokens":"`)
				chain.does(func(node.Request) (*node.Answer, error) {
					n++
					a := r.answer()
					a.Body[digit] = byte('1' + n%9)
					return a, nil
				})
				b.SetBytes(int64(len(r.Raw)))
				measure(b, h, r.target(), func() { chain.grow(1) }, "Accept-Encoding", coding)
			})
		}
	}
}
