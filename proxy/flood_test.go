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

func TestHEADEncodesNothing(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := startChain(t, proxy.Options{Web: web.Options{Registerer: registry}})
	s.Client().Transport.(*http.Transport).DisableCompression = true
	head := func(accepted string) exchange {
		return s.do(t, http.MethodHead, longPath, "", "Accept-Encoding", accepted)
	}
	for range 2 {
		for _, coding := range []string{"gzip", "br", "zstd", "br, identity;q=0"} {
			got := head(coding)
			got.expectHeader(t, "Content-Encoding", strings.TrimSuffix(coding, ", identity;q=0"))
			got.expectHeader(t, "Content-Length", "")
		}
	}
	expect.Equal(t, expect.Metric(t, registry, "tipcache_cache_encodings_total"), 0, "encoded bodies")
	get, again := s.get(t, longPath, "Accept-Encoding", "br"), head("br")
	for _, name := range []string{"Content-Encoding", "Content-Length", "Etag", "Content-Type"} {
		again.expectHeader(t, name, get.header.Get(name))
	}
	head("").expectHeader(t, "Content-Length", s.get(t, longPath).header.Get("Content-Length"))
}
