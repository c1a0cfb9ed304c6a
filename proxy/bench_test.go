package proxy_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
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

func nothing() {}

func BenchmarkMemoryHit(b *testing.B) {
	h, _ := newChainProxy(b, proxy.Options{})
	measure(b, h, "/staking/validators", nothing)
}

// A body encoded before costs no more than a plain one.
func BenchmarkEncodedMemoryHit(b *testing.B) {
	for _, coding := range []string{"gzip", "zstd", "br"} {
		b.Run(coding, func(b *testing.B) {
			h, _ := newChainProxy(b, proxy.Options{})
			measure(b, h, "/staking/validators", nothing, "Accept-Encoding", coding)
		})
	}
}

func BenchmarkMemoryHitForAPageOfAnotherOrigin(b *testing.B) {
	h, _ := newChainProxy(b, proxy.Options{Web: web.Options{CORSOrigins: []string{"https://app.example"}}})
	measure(b, h, "/staking/validators", nothing, "Origin", "https://app.example")
}

// A hit has few allocations, in whatever coding, and origins add none.
func TestAHitAllocatesLittle(t *testing.T) {
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

func BenchmarkMemoryHitOfAPage(b *testing.B) {
	h, _ := newChainProxy(b, proxy.Options{})
	measure(b, h, "/staking/validators?pagination.limit=5&pagination.key=FA6VcrkwMAeEBEomLYfakbTyrOOJ", nothing)
}

// What the kinds of parameters add to a hit. The client has the answer, so that
// nothing is written.
func BenchmarkParameters(b *testing.B) {
	for name, target := range map[string]string{
		"no parameter":         "/staking/params",
		"hex address":          "/staking/validators/" + val5,
		"bech32 address":       "/staking/validators/" + val5Bech32,
		"two addresses":        "/staking/validators/" + val5 + "/delegations/" + del0,
		"status":               "/staking/validators?status=bonded",
		"limit and offset":     "/staking/validators?pagination.limit=5&pagination.offset=10",
		"limit and key":        "/staking/validators?pagination.limit=5&pagination.key=FA6VcrkwMAeEBEomLYfakbTyrOOJ",
		"parameters of others": "/staking/validators?utm_source=a&utm_medium=b&status=bonded&fbclid=c",
	} {
		b.Run(name, func(b *testing.B) {
			h, _ := newChainProxy(b, proxy.Options{})
			measure(b, h, target, nothing, "If-None-Match", "*")
		})
	}
}

// What the access log adds to a hit, written to where it costs nothing.
func BenchmarkAccessLog(b *testing.B) {
	logger := slog.New(slog.NewJSONHandler(io.Discard, nil)) // for its level
	for name, o := range map[string]web.Options{
		"off": {Logger: logger}, "on": {Logger: logger, AccessLog: io.Discard}, "a tenth": {Logger: logger, AccessLog: io.Discard, SkipLog: 0.9},
	} {
		b.Run(name, func(b *testing.B) {
			h, _ := newChainProxy(b, proxy.Options{Web: o})
			measure(b, h, "/staking/params", nothing)
		})
	}
}

func BenchmarkNotModified(b *testing.B) {
	h, _ := newChainProxy(b, proxy.Options{})
	tag := inProcess(h, "/staking/validators", "").Header().Get("Etag")
	measure(b, h, "/staking/validators", nothing, "If-None-Match", tag)
}

// A miss every time: at every block another number of an answer is another one.
func BenchmarkMissAndReshape(b *testing.B) { benchmarkMiss(b, chain.Documented) }

// The same without reshaping.
func BenchmarkMissInTheNodesShape(b *testing.B) { benchmarkMiss(b, chain.Node) }

func benchmarkMiss(b *testing.B, shape chain.Shape) {
	list := recorded(b, "ok_validators_default")
	long, page := list, list
	first, last := strings.Index(list.Raw, "[{")+1, strings.LastIndex(list.Raw, "}]")+1
	long.Raw = list.Raw[:first] + strings.Repeat(list.Raw[first:last]+",", 9) + list.Raw[first:]
	page.Raw = strings.Replace(list.Raw, `"next_key":null`, `"next_key":"FA6VcrkwMAeEBEomLYfakbTyrOOJ"`, 1)
	for name, r := range map[string]recording{"item": recorded(b, "ok_validator_v5_bonded_unlocked"), "list": list, "page": page, "long list": long} {
		for _, coding := range []string{"", "br"} {
			b.Run(strings.TrimSpace(name+" "+coding), func(b *testing.B) {
				h, chain := newChainProxy(b, proxy.Options{Chain: chain.Options{Shape: shape}})
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

// The same answer at every block.
func BenchmarkConfirm(b *testing.B) {
	h, chain := newChainProxy(b, proxy.Options{})
	measure(b, h, "/staking/validators", func() { chain.grow(1000) })
}

// A request that ends at its first parameter.
func BenchmarkRefusal(b *testing.B) {
	h, _ := newChainProxy(b, proxy.Options{})
	measure(b, h, "/staking/validators/nonsense", nothing)
}
