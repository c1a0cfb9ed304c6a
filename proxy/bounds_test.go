package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestAnswerThatCannotBeShapedIsABadGateway(t *testing.T) {
	const rewards, periods = "/distribution/delegators/" + del0 + "/rewards", "/staking/validators/" + val5 + "/delegators/" + del1 + "/period_delegations"
	list := func(item string, n int) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
	tests := []struct{ name, target, msg string }{
		{"validators without an address", longPath, `{"validators":` + list("{}", 350_001) + `}`},
		{"one validator without an address", longPath, `{"validators":[{"operator_address":"0x01"},{}]}`},
		{"validators that are null", longPath, `{"validators":[null]}`},
		{"delegations of no delegator", "/staking/delegations/" + del0, `{"delegation_responses":[{"delegation":{"validator_address":"x"}}]}`},
		{"period delegations without an id", periods, `{"period_delegation_responses":[{"period_delegation":{"delegator_address":"x","validator_address":"y"}}]}`},
		{"rewards of no validator", rewards, `{"rewards":[{"reward":[]}]}`},
		{"validators with an empty address only", longPath, `{"validators":` + list(`{"operator_address":""}`, 5000) + `}`},
		{"rewards in thousands of denoms", rewards, `{"rewards":[{"validator_address":"x","note":"` + strings.Repeat("x", 10_000) + `","reward":` + list("{}", 10_000) + `}]}`},
		{"empty periods", "/staking/params", `{"params":{"periods":` + list("{}", 50_000) + `}}`},
	}
	s := startChain(t, proxy.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.chain.reply(http.StatusOK, `{"code":200,"msg":`+tt.msg+`,"error":""}`)
			s.chain.grow(1000)
			s.get(t, tt.target).expectRefusal(t, http.StatusBadGateway, `{"code":502,"msg":{},"error":"the chain node's answer cannot be understood"}`+"\n")
		})
	}
}

func TestNodeGetsUnescapedPaths(t *testing.T) {
	tests := []struct{ name, target, want string }{
		{"an escaped plus sign", "/upgrade/applied_plan/%2Bb", "/upgrade/applied_plan/+b"},
		{"an escaped percent sign", "/upgrade/applied_plan/%252Bb", "/upgrade/applied_plan/%2Bb"},
		{"a space", "/upgrade/applied_plan/a%20b", "/upgrade/applied_plan/a b"},
		{"a question mark", "/upgrade/applied_plan/a%3Fb", "/upgrade/applied_plan/a?b"},
		{"a name of three dots", "/upgrade/applied_plan/...", "/upgrade/applied_plan/..."},
	}
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startChain(t, proxy.Options{Chain: story.Options{Shape: shape}})
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s, %s", tt.name, shape), func(t *testing.T) {
				s.chain.grow(1000)
				s.get(t, tt.target)
				expect.Equal(t, s.chain.lastRequest().Path, tt.want, "path of the node request")
			})
		}
	}
}

func TestDotSegmentsNeverReachTheNode(t *testing.T) {
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startChain(t, proxy.Options{Chain: story.Options{Shape: shape}})
		for _, target := range []string{
			"/upgrade/applied_plan/..", "/upgrade/applied_plan/.", "/upgrade/applied_plan/%2e%2E", "/staking/validators/../delegations", "/staking/../staking/pool", "/../x",
			"/staking/validators/" + val5 + "/delegations/%2e.",
		} {
			got := s.get(t, target)
			got.expect(t, http.StatusNotFound)
			if strings.Contains(got.body, string(shape)+"/") {
				t.Errorf("%s, %s: body = %q, want no cache prefix in it", shape, target, got.body)
			}
		}
		expect.Equal(t, s.chain.calls(), 0, "%s: node requests", shape)
	}
}
