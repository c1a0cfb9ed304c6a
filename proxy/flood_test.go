package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
)

func TestRequestsTooLargeCountAgainstTheRate(t *testing.T) {
	s := startChain(t, proxy.Options{Web: web.Options{Limits: limits.Limits{Address: twice}}})
	long := anyPath + "?" + strings.Repeat("x", 9<<10)
	statuses := []int{
		s.get(t, long).status,
		s.get(t, anyPath, "X-Long", strings.Repeat("x", 17<<10)).status,
		s.get(t, long).status,
		s.get(t, anyPath).status,
	}
	if diff := cmp.Diff([]int{http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge, http.StatusTooManyRequests, http.StatusTooManyRequests}, statuses); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestAHeadEncodesNothing(t *testing.T) {
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
	if diff := cmp.Diff([]string{`coding:"br" 0`, `coding:"gzip" 0`, `coding:"zstd" 0`}, counted(t, registry, "tipcache_cache_encodings_total")); diff != "" {
		t.Errorf("encoded (-want +got):\n%s", diff)
	}
	got, described := s.get(t, longPath, "Accept-Encoding", "br"), head("br")
	for _, name := range []string{"Content-Encoding", "Content-Length", "Etag", "Content-Type"} {
		described.has(t, name, got.header.Get(name))
	}
	head("").has(t, "Content-Length", s.get(t, longPath).header.Get("Content-Length"))
}

func TestThoseWhoWaitForABlockAreBounded(t *testing.T) {
	s := startChain(t, proxy.Options{
		Chain: chain.Options{MinHeightWait: 4 * time.Minute}, Web: web.Options{RequestTimeout: 5 * time.Minute}, // it takes a while until all have come
	})
	s.Client().Transport.(*http.Transport).MaxConnsPerHost = 0
	statuses := make(chan int)
	const asked = 1100
	for range asked {
		go func() {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+anyPath, nil)
			r.Header.Set("X-Min-Block-Height", "229")
			res, err := s.Client().Do(r)
			if err != nil {
				statuses <- 0
				return
			}
			_ = res.Body.Close()
			statuses <- res.StatusCode
		}()
	}
	for range asked - 1000 {
		if got := <-statuses; got != http.StatusServiceUnavailable {
			t.Fatalf("status %d", got)
		}
	}
	s.chain.grow(1)
	for range 1000 {
		if got := <-statuses; got != http.StatusOK {
			t.Fatalf("status %d of one that waited", got)
		}
	}
}
