package proxy_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestAccessRulesApplyHoweverAPathIsRequested(t *testing.T) {
	s := startChain(t, proxy.Options{Web: web.Options{Limits: limits.Limits{Access: []limits.Rule{limits.NewDeny("/staking/p*")}}}})
	tellsHeights(s)
	const denied = "access to /staking/pool is denied here"
	for _, target := range []string{
		poolPath, "//staking///pool/", "/staking/%70ool", poolPath + "?since=", poolPath + "?x=1",
		batchOf(paramsPath, poolPath), "/live?path=" + url.QueryEscape("/staking/pool/"), batchOf("//staking/pool"),
	} {
		s.get(t, target).refuses(t, http.StatusForbidden, chainRefusal(http.StatusForbidden, denied))
	}
	s.get(t, poolPath, "Accept", "text/event-stream").refuses(t, http.StatusForbidden, chainRefusal(http.StatusForbidden, denied))
	for _, target := range []string{"/staking/validators", batchOf(paramsPath)} {
		s.get(t, target).wants(t, http.StatusOK)
	}
	e, err := s.proxy.Explain(t.Context(), proxy.Inquiry{URL: poolPath})
	if err != nil || e.Access != "deny /staking/p*" || e.Refusal == nil || !strings.Contains(e.Refusal.Body, denied) {
		t.Errorf("explain %s = %+v, %v; want the rule", poolPath, e, err)
	}
	for method, want := range map[string]string{"net_info": "denied", "tx_search": "allowed", "cosmos.bank.v1beta1.Query/Balance": "allowed"} {
		if e, err := s.proxy.Explain(t.Context(), proxy.Inquiry{URL: method}); err != nil || e.Verdict != want {
			t.Errorf("explain %s = %+v, %v; want %s", method, e, err, want)
		}
	}
	s.proxy.SetLimits(limits.Limits{})
	s.get(t, poolPath).wants(t, http.StatusOK)
}

func TestStreamsAndPollsEndOnceARuleDeniesThem(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	s := startChain(t, proxy.Options{Web: web.Options{Registerer: registry}})
	tellsHeights(s)
	streams := map[string]*eventStream{}
	for _, target := range []string{poolPath, "/live?path=" + paramsPath + "&path=" + url.QueryEscape("//staking/pool?x=1"), paramsPath} {
		es := s.stream(t, target)
		es.next()
		streams[target] = es
	}
	next := nextOf(t, s.get(t, poolPath+"?since=0"))
	polled := make(chan exchange, 1)
	go func() { polled <- s.get(t, poolPath+next) }()
	expect.Eventually(t, "a poll and three streams are open", func() bool { return openStreams(t, registry) == "4" })
	s.proxy.SetLimits(limits.Limits{Access: []limits.Rule{{Text: "allow", Patterns: []string{paramsPath, "/live"}}, limits.NewDeny("*")}})
	if got := <-polled; got.status != http.StatusForbidden {
		t.Errorf("the poll = %d, want 403", got.status)
	}
	expect.Eventually(t, "one stream is left", func() bool { return openStreams(t, registry) == "1" })
	s.chain.grow(1)
	if got := streams[paramsPath].next(); !strings.Contains(got, "id: 229.") {
		t.Errorf("the stream that is allowed gets %q, want the next block", got)
	}
}

func TestRateOfARuleHoldsForRepeatedRequestsBatchesAndStreams(t *testing.T) {
	rule := limits.Rule{Text: "limit 2/h /staking/pool", Patterns: []string{poolPath}, Rate: limits.Rate{Requests: 2, Per: time.Hour, Burst: 2}}
	s := startChain(t, proxy.Options{Web: web.Options{Limits: limits.Limits{Access: []limits.Rule{rule}}}})
	tellsHeights(s)
	s.get(t, poolPath).has(t, "RateLimit", `"rule";r=1;t=1800`)
	s.get(t, batchOf(poolPath, paramsPath)).has(t, "RateLimit", `"rule";r=0;t=3600`)
	for _, target := range []string{poolPath, batchOf(poolPath)} {
		s.get(t, target).refuses(t, http.StatusTooManyRequests, chainRefusal(http.StatusTooManyRequests, "too many requests: the limit of this rule is 2 in 1h0m0s"))
	}
	for _, target := range []string{poolPath, "/live?path=" + url.QueryEscape(poolPath)} {
		if got := s.stream(t, target).next(); !strings.HasPrefix(got, "retry: ") {
			t.Errorf("event of %s = %q, want only when to retry", target, got)
		}
	}
	s.get(t, paramsPath).wants(t, http.StatusOK)
}
