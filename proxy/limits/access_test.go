package limits_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestFirstMatchingRuleDecides(t *testing.T) {
	l := limits.Limits{Access: []limits.Rule{
		{Text: "one", Patterns: []string{"tx_search", "/staking/*", "cosmos.bank.v1beta1.Query/*"}},
		{Text: "two", Patterns: []string{"tx_*", "/*/validators/*/a*"}, Deny: true},
		{Text: "three", Patterns: []string{"net_info", "dump_*"}},
	}}
	for operation, want := range map[string]string{
		"tx_search": "one", "tx": "", "tx_": "two", "tx_search_": "two",
		"/staking/": "one", "/staking/a/b": "one", "/staking": "", "staking/a": "",
		"cosmos.bank.v1beta1.Query/Balance": "one", "cosmos.bank.v1beta1.Quer/Balance": "",
		"/x/validators/y/ab": "two", "/x/validators/y/b": "", "/validators/y/a": "",
		"net_info": "three", "dump_consensus_state": "three",
	} {
		got := ""
		if r := l.Rule(operation); r != nil {
			got = r.Text
		}
		expect.Equal(t, got, want, "rule of %s", operation)
	}
}

func TestNodeInternalsAreDeniedUnlessARuleAllowsThem(t *testing.T) {
	a := newAdmission(limits.Limits{})
	denied := []string{"/metrics", "net_info", "consensus_state", "dump_consensus_state", "unconfirmed_txs", "unsafe_flush_mempool", "dial_peers", "cometbft.services.pruning.v1.PruningService/SetBlockRetainHeight"}
	for _, operation := range denied {
		if got, want := verdict(a.Denied(operation)), "403 after 0s: access to "+operation+" is denied here"; got != want {
			t.Errorf("Denied(%s) = %q, want %q", operation, got, want)
		}
	}
	for _, operation := range []string{"status", "health", "num_unconfirmed_txs", "/cosmos/base/tendermint/v1beta1/node_info", "/net_info"} {
		expect.NoError(t, a.Denied(operation))
	}
	a.Limits.Store(&limits.Limits{Access: []limits.Rule{{Patterns: []string{"*"}}}})
	for _, operation := range denied {
		expect.NoError(t, a.Denied(operation))
	}
}

func TestRateOfRuleIsPerClientForAllMatchingOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(limits.Limits{Access: []limits.Rule{{Text: "limit 2/h *_search", Patterns: []string{"*_search"}, Rate: perHour}}})
		one, two, keyed := limits.Client{Address: client}, limits.Client{Address: other}, limits.Client{Address: client, Key: limits.Key{Name: "one"}}
		const refused = "429 after 30m0s: too many requests: the limit of this rule is 2 in 1h0m0s"
		for i, step := range []struct {
			c         *limits.Client
			operation string
			want      string
		}{
			{&one, "tx_search", "admitted"}, {&one, "block_search", "admitted"}, {&one, "tx_search", refused}, {&one, "tx", "admitted"},
			{&two, "tx_search", "admitted"}, {&keyed, "tx_search", "admitted"}, {&one, "block_search", refused},
		} {
			answer := http.Header{}
			charge := limits.Charge{}
			charged, err := a.AdmitOperation(t.Context(), step.c, step.operation, answer, &charge)
			expect.Equal(t, verdict(err), step.want, "step %d", i)
			if want := step.operation != "tx"; !charged || charge.Rule != nil != want || (answer.Get(limits.StatusHeader) != "") != want {
				t.Errorf("step %d: charged = %t, rule %v with headers %v; want a rule: %t", i, charged, charge.Rule, answer, want)
			}
		}
		_, err := a.AdmitOperation(t.Context(), &one, "tx_search", http.Header{}, &limits.Charge{})
		want := `rate limit of rule "limit 2/h *_search", client 192.0.2.1`
		if f := new(failure.Failure); !errors.As(err, &f) || f.Err == nil || f.Err.Error() != want {
			t.Errorf("logged error = %+v, want %q", f, want)
		}
		b := newAdmission(limits.Limits{Access: []limits.Rule{{Text: "limit 1/h burst 2 tx", Patterns: []string{"tx"}, Rate: limits.Rate{Requests: 1, Per: time.Hour, Burst: 2}}}})
		for range 3 {
			_, err = b.AdmitOperation(t.Context(), &one, "tx", http.Header{}, &limits.Charge{})
		}
		if got, want := verdict(err), "the limit of this rule is 1 in 1h0m0s, at most 2 at once"; !strings.HasSuffix(got, want) {
			t.Errorf("verdict = %q, want it to end with %q", got, want)
		}
	})
}

// A proxy in front may refuse the header of a batch that has a line for each of its operations.
func TestOperationsOfOneRequestHaveOneStateOfEachLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(limits.Limits{Address: limits.Rate{Requests: 60, Per: time.Hour, Burst: 60}, Access: []limits.Rule{
			{Text: "limit 60/h *_search", Patterns: []string{"*_search"}, Rate: limits.Rate{Requests: 60, Per: time.Hour, Burst: 60}},
			{Text: "limit 6/h tx", Patterns: []string{"tx"}, Rate: limits.Rate{Requests: 6, Per: time.Hour, Burst: 6}},
			{Text: "cost 3 block", Patterns: []string{"block"}, Cost: 3},
		}})
		c, answer := limits.Client{Address: client}, http.Header{}
		expect.NoError(t, a.Admit(t.Context(), &c, answer))
		for _, operation := range []string{"tx_search", "tx", "block_search", "block", "tx_search"} {
			_, err := a.AdmitOperation(t.Context(), &c, operation, answer, &limits.Charge{})
			expect.NoError(t, err)
		}
		expect.NoDiff(t, answer, http.Header{
			limits.StatusHeader: {`"address";r=57;t=180`, `"rule";r=57;t=180`, `"rule";r=5;t=600`},
			limits.PolicyHeader: {`"address";q=60;w=3600`, `"rule";q=60;w=3600`, `"rule";q=6;w=3600`},
		}, "headers")
	})
}

func TestCostOfRuleCountsAgainstLimitOfClient(t *testing.T) {
	a := newAdmission(limits.Limits{
		Address: limits.Rate{Requests: 6, Per: time.Hour, Burst: 6},
		Access:  []limits.Rule{{Text: "cost 3 block_search", Patterns: []string{"block_search"}, Cost: 3}},
	})
	c := limits.Client{Address: client}
	var got []string
	for range 3 {
		err := a.Admit(t.Context(), &c, http.Header{})
		if err == nil {
			_, err = a.AdmitOperation(t.Context(), &c, "block_search", http.Header{}, &limits.Charge{})
		}
		got = append(got, verdict(err)[:8])
	}
	expect.NoDiff(t, got, []string{"admitted", "admitted", "429 afte"}, "verdicts")
}

func TestCostAboveBurstIsForbidden(t *testing.T) {
	a := newAdmission(limits.Limits{
		Address: limits.Rate{Requests: 30, Per: time.Second, Burst: 30},
		Access:  []limits.Rule{{Text: "cost 100 block_search", Patterns: []string{"block_search"}, Cost: 100}},
	})
	_, err := a.AdmitOperation(t.Context(), &limits.Client{Address: client}, "block_search", http.Header{}, &limits.Charge{})
	want := "403 after 0s: this request counts as 100 requests, and the limit of this address never admits more than 30 at once"
	expect.Equal(t, verdict(err), want, "AdmitOperation")
}

func TestRequestIsChargedForTheRateOfOneRule(t *testing.T) {
	a := newAdmission(limits.Limits{Access: []limits.Rule{
		{Text: "cost 3 tx", Patterns: []string{"tx"}, Cost: 3}, {Text: "limit 2/h *_search", Patterns: []string{"*_search"}, Rate: perHour},
	}})
	var got []bool
	var charge limits.Charge
	for _, operation := range []string{"tx", "tx", "status", "tx_search", "block_search"} {
		charged, err := a.AdmitOperation(t.Context(), &limits.Client{Address: client}, operation, http.Header{}, &charge)
		expect.NoError(t, err)
		got = append(got, charged)
	}
	expect.NoDiff(t, got, []bool{true, true, true, true, false}, "charged")
	if charge.More != 4 || charge.Rule == nil {
		t.Errorf("charge = %+v, want 4 more requests and a rule", charge)
	}
}
