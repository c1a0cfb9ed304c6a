package proxy_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/web"
)

func TestAStreamIsCountedButIsNoTimeOfAnAnswer(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := startChain(t, proxy.Options{Web: web.Options{Registerer: registry}})
	es := s.stream(t, anyPath)
	es.next()
	es.close()
	eventually(t, "the stream is counted", func() bool {
		for _, line := range counted(t, registry, "tipcache_proxy_requests_total") {
			if strings.HasSuffix(line, `method:"GET" outcome:"answered" route:"stream" status:"200" 1`) {
				return true
			}
		}
		return false
	})
	if n := observed(t, registry, "tipcache_proxy_request_duration_seconds"); n != 0 {
		t.Errorf("%d times were taken", n)
	}
}

// observed is how often a histogram was given a value.
func observed(t *testing.T, g prometheus.Gatherer, name string) (times uint64) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				times += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return times
}
