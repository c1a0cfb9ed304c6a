package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestAccessRulesApplyToEveryFormOfAPath(t *testing.T) {
	s := startChain(t, proxy.Options{Web: web.Options{Limits: limits.Limits{Access: []limits.Rule{limits.NewDeny("/staking/p*")}}}})
	answerHeights(s)
	const denied = "access to /staking/pool is denied here"
	for _, target := range []string{
		poolPath, "//staking///pool/", "/staking/%70ool", poolPath + "?since=", poolPath + "?x=1",
		batchOf(paramsPath, poolPath), "/live?path=" + url.QueryEscape("/staking/pool/"), batchOf("//staking/pool"),
	} {
		s.get(t, target).expectRefusal(t, http.StatusForbidden, chainRefusal(http.StatusForbidden, denied))
	}
	s.get(t, poolPath, "Accept", "text/event-stream").expectRefusal(t, http.StatusForbidden, chainRefusal(http.StatusForbidden, denied))
	for _, target := range []string{"/staking/validators", batchOf(paramsPath)} {
		s.get(t, target).expect(t, http.StatusOK)
	}
	if e := explain(t, s.proxy, proxy.Inquiry{URL: poolPath}); e.Access != "deny /staking/p*" || e.Refusal == nil || !strings.Contains(e.Refusal.Body, denied) {
		t.Errorf("explanation of %s = %+v, want the rule", poolPath, e)
	}
	for method, want := range map[string]string{"net_info": "denied", "tx_search": "allowed", "cosmos.bank.v1beta1.Query/Balance": "allowed"} {
		expect.Equal(t, explain(t, s.proxy, proxy.Inquiry{URL: method}).Verdict, want, "verdict on %s", method)
	}
	s.proxy.SetLimits(limits.Limits{})
	s.get(t, poolPath).expect(t, http.StatusOK)
}

// A gateway of the SDK ignores a colon at the end of a path.
func TestAccessRulesIgnoreAColonAtTheEndOfAPath(t *testing.T) {
	const read, simulate = "/cosmos/staking/v1beta1/pool", "/cosmos/tx/v1beta1/simulate"
	rules := []limits.Rule{limits.NewDeny(read), limits.NewDeny(simulate)}
	s := startChain(t, proxy.Options{Dialect: node.Cosmos, Web: web.Options{Limits: limits.Limits{Access: rules}}})
	for _, target := range []string{read, read + ":", batchOf(read + ":"), "/live?path=" + url.QueryEscape(read+":")} {
		s.get(t, target).expect(t, http.StatusForbidden, "is denied here")
	}
	for _, target := range []string{simulate, simulate + ":"} {
		s.do(t, http.MethodPost, target, "{}").expect(t, http.StatusForbidden, "is denied here")
	}
	expect.Equal(t, explain(t, s.proxy, proxy.Inquiry{URL: read + ":"}).Access, rules[0].Text, "rule in the explanation")
}

func TestStreamsAndPollsEndWhenARuleDeniesThem(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	s := startChain(t, proxy.Options{Web: web.Options{Registerer: registry}})
	answerHeights(s)
	streams := map[string]*eventStream{}
	for _, target := range []string{poolPath, "/live?path=" + paramsPath + "&path=" + url.QueryEscape("//staking/pool?x=1"), paramsPath} {
		es := s.stream(t, target)
		es.next()
		streams[target] = es
	}
	next := nextPoll(t, s.get(t, poolPath+"?since=0"))
	polled := make(chan exchange, 1)
	go func() { polled <- s.get(t, poolPath+next) }()
	waitForStreams(t, registry, 4)
	s.proxy.SetLimits(limits.Limits{Access: []limits.Rule{{Text: "allow", Patterns: []string{paramsPath, "/live"}}, limits.NewDeny("*")}})
	(<-polled).expect(t, http.StatusForbidden)
	waitForStreams(t, registry, 1)
	s.chain.grow(1)
	expect.Contains(t, streams[paramsPath].next(), "id: 229.", "next event of the allowed stream")
}

func TestRateOfARuleLimitsRequestsBatchesAndStreams(t *testing.T) {
	rule := limits.Rule{Text: "limit 2/h /staking/pool", Patterns: []string{poolPath}, Rate: limits.Rate{Requests: 2, Per: time.Hour, Burst: 2}}
	s := startChain(t, proxy.Options{Web: web.Options{Limits: limits.Limits{Access: []limits.Rule{rule}}}})
	answerHeights(s)
	s.get(t, poolPath).expectHeader(t, "RateLimit", `"rule";r=1;t=1800`)
	s.get(t, batchOf(poolPath, paramsPath)).expectHeader(t, "RateLimit", `"rule";r=0;t=3600`)
	for _, target := range []string{poolPath, batchOf(poolPath)} {
		s.get(t, target).expectRefusal(t, http.StatusTooManyRequests, chainRefusal(http.StatusTooManyRequests, "too many requests: the limit of this rule is 2 in 1h0m0s"))
	}
	for _, target := range []string{poolPath, "/live?path=" + url.QueryEscape(poolPath)} {
		if got := s.stream(t, target).next(); !strings.HasPrefix(got, "retry: ") {
			t.Errorf("first event of %s = %q, want retry", target, got)
		}
	}
	s.get(t, paramsPath).expect(t, http.StatusOK)
}

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
		Settings:  node.Settings{InFlight: 1, Timeout: time.Minute},
		Endpoints: []node.Endpoint{{REST: upstream.URL}}, Queue: time.Minute, Registerer: registry,
	}))(t)
	t.Cleanup(func() { _ = pool.Close() })
	key := keyOf("child", "secret")
	key.Rate = limits.Rate{Requests: 1000, Per: time.Second, Burst: 1000}
	p := expect.Value(proxy.New(proxy.Options{Cache: newCache(t, nil), Chain: blocks.Options{Nodes: pool}, Web: web.Options{
		Settings: web.Settings{RequestTimeout: time.Minute},
		Keys:     []limits.Key{key}, Limits: limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
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
