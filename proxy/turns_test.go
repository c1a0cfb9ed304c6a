package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// gatedNode records the validators of its requests in order, and answers after open is closed.
type gatedNode struct {
	open       chan struct{}
	mu         sync.Mutex
	validators []string
}

func (n *gatedNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	address := r.URL.Path[len(r.URL.Path)-40:]
	n.mu.Lock()
	n.validators = append(n.validators, strings.TrimLeft(address, "0"))
	n.mu.Unlock()
	<-n.open
	fmt.Fprintf(w, `{"code":200,"msg":{"validator":{"operator_address":"0x%s"}},"error":""}`, address)
}

func (n *gatedNode) requests() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.validators)
}

func TestClientsOfOneKeyWithRateTakeTurnsSeparately(t *testing.T) {
	t.Parallel()
	n := &gatedNode{open: make(chan struct{})}
	upstream := httptest.NewServer(n)
	t.Cleanup(upstream.Close)
	registry := prometheus.NewPedanticRegistry()
	pool := expect.Value(node.New(node.Options{
		Endpoints: []node.Endpoint{{REST: upstream.URL}}, InFlight: 1, Queue: time.Minute, Timeout: time.Minute, Registerer: registry,
	}))(t)
	t.Cleanup(func() { _ = pool.Close() })
	key := keyOf("child", "secret")
	key.Rate = limits.Rate{Requests: 1000, Per: time.Second, Burst: 1000}
	p := expect.Value(proxy.New(proxy.Options{Cache: newCache(t, nil), Chain: story.Options{Nodes: pool}, Web: web.Options{
		RequestTimeout: time.Minute, Keys: []limits.Key{key}, Limits: limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}}))(t)
	s := &chainService{Server: startServer(t, p, nil)}
	var clients sync.WaitGroup
	request := func(validator, queued int, header, value string) {
		t.Helper()
		clients.Go(func() {
			s.get(t, fmt.Sprintf("/staking/validators/0x%040d", validator), header, value).expect(t, http.StatusOK)
		})
		expect.Eventually(t, fmt.Sprintf("%d queued requests", queued), func() bool {
			return n.requests() == 1 && expect.Metric(t, registry, "tipcache_node_queue_length") == float64(queued)
		})
	}
	request(1, 0, "X-Api-Key", "secret")
	for i := range 3 {
		request(1000+i, 1+i, "X-Forwarded-For", "192.0.2.1")
	}
	for i := range 4 {
		request(2+i, 4+i, "X-Api-Key", "secret")
	}
	close(n.open)
	clients.Wait()
	expect.NoDiff(t, n.validators, []string{"1", "1000", "2", "3", "1001", "4", "5", "1002"}, "order of node requests")
}
