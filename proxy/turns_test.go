package proxy_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// A gatedNode answers one request for each token, and notes whom it was asked
// about, in order.
type gatedNode struct {
	tokens chan struct{}
	mu     sync.Mutex
	asked  []string
}

func (n *gatedNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := r.URL.Path[len(r.URL.Path)-40:]
	n.mu.Lock()
	n.asked = append(n.asked, strings.TrimLeft(who, "0"))
	n.mu.Unlock()
	<-n.tokens
	fmt.Fprintf(w, `{"code":200,"msg":{"validator":{"operator_address":"0x%s"}},"error":""}`, who)
}

func (n *gatedNode) begun() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.asked)
}

// child is a client whose key, which is its name, has a rate of its own.
const child = "child"

// startTurns serves the chain of a node that works on one request at a time.
func startTurns(t *testing.T, n http.Handler) (url string, queued func(int)) {
	t.Helper()
	upstream := httptest.NewServer(n)
	t.Cleanup(upstream.Close)
	registry := prometheus.NewPedanticRegistry()
	pool := expect.Value(node.New(node.Options{
		Endpoints: []node.Endpoint{{REST: upstream.URL}}, InFlight: 1, Queue: time.Minute, Timeout: time.Minute, Registerer: registry,
	}))(t)
	t.Cleanup(func() { _ = pool.Close() })
	c := expect.Value(cache.New(cache.Options{FlightTimeout: time.Minute}))(t)
	t.Cleanup(func() { _ = c.Close() })
	p := expect.Value(proxy.New(proxy.Options{Cache: c, Chain: story.Options{Nodes: pool}, Web: web.Options{
		RequestTimeout: time.Minute, Keys: []limits.Key{{Name: child, SHA256: sha256.Sum256([]byte(child)), Rate: limits.Rate{Requests: 1000, Per: time.Second, Burst: 1000}}},
		Limits: limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}}))(t)
	return startServer(t, p, nil, nil).URL, func(want int) {
		t.Helper()
		expect.Eventually(t, fmt.Sprintf("a queue of %d", want), func() bool {
			return strings.HasSuffix(counted(t, registry, "tipcache_node_queue_length")[0], fmt.Sprintf(" %d", want))
		})
	}
}

// ask reads one validator as a client of an address, or as child.
func ask(ctx context.Context, url, client string, validator int) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/staking/validators/0x%040d", url, validator), nil)
	if err != nil {
		return err
	}
	if client == child {
		r.Header.Set("X-Api-Key", child)
	} else {
		r.Header.Set("X-Forwarded-For", client)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", client, res.StatusCode)
	}
	return nil
}

// beginTurns returns a function that begins a request and waits until the queue has a length, and one that lets the node
// answer and returns the validators in the order in which the node was asked.
func beginTurns(t *testing.T) (begin func(client string, validator, queue int), end func() []string) {
	t.Helper()
	n := &gatedNode{tokens: make(chan struct{})}
	url, queued := startTurns(t, n)
	var clients sync.WaitGroup
	begin = func(client string, validator, queue int) {
		t.Helper()
		clients.Go(func() {
			if err := ask(t.Context(), url, client, validator); err != nil {
				t.Error(err)
			}
		})
		expect.Eventually(t, "the node is asked", func() bool { return n.begun() == 1 })
		queued(queue)
	}
	return begin, func() []string {
		close(n.tokens)
		clients.Wait()
		return n.asked
	}
}

func TestReadersOfKeyWithRateDoNotShareOneTurn(t *testing.T) {
	t.Parallel()
	begin, end := beginTurns(t)
	begin(child, 1, 0)
	for i := range 3 {
		begin("192.0.2.1", 1000+i, 1+i)
	}
	for i := range 4 {
		begin(child, 2+i, 4+i)
	}
	expect.NoDiff(t, end(), []string{"1", "1000", "2", "3", "1001", "4", "5", "1002"}, "order of requests")
}

func TestFloodOfColdKeysDoesNotDelayOtherClients(t *testing.T) {
	t.Parallel()
	begin, end := beginTurns(t)
	for i := range 20 { // of two addresses in a network, which are one client
		begin(fmt.Sprintf("2001:db8::%d", i%2), i+1, i)
	}
	begin("192.0.2.1", 1000, 20)
	begin("192.0.2.2", 2000, 21)
	begin("192.0.2.1", 1001, 22)
	expect.NoDiff(t, end()[:6], []string{"1", "1000", "2000", "2", "1001", "3"}, "order of requests")
}
