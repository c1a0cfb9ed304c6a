package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestHeadEncodesNothing(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := startPlainChain(t, proxy.Options{Web: web.Options{Registerer: registry}})
	head := func(accepted string) exchange {
		return s.do(t, http.MethodHead, longPath, "", "Accept-Encoding", accepted)
	}
	for range 2 {
		for _, coding := range []string{"gzip", "br", "zstd", "br, identity;q=0"} {
			got := head(coding)
			got.has(t, "Content-Encoding", strings.TrimSuffix(coding, ", identity;q=0"))
			got.has(t, "Content-Length", "")
		}
	}
	expect.NoDiff(t, counted(t, registry, "tipcache_cache_encodings_total"), []string{`coding:"br" 0`, `coding:"gzip" 0`, `coding:"zstd" 0`}, "encoded")
	got, described := s.get(t, longPath, "Accept-Encoding", "br"), head("br")
	for _, name := range []string{"Content-Encoding", "Content-Length", "Etag", "Content-Type"} {
		described.has(t, name, got.header.Get(name))
	}
	head("").has(t, "Content-Length", s.get(t, longPath).header.Get("Content-Length"))
}
