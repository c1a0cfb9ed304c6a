package proxy_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestEveryRecordedAnswerBecomesADocumentedOne(t *testing.T) {
	s := startChain(t, proxy.Options{})
	checked := map[string]int{}
	for _, r := range recordings(t) {
		if r.Status != 200 || documentedShape(r.Path) == nil || refused(r.Name) {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			s.chain.does(func(node.Request) (*node.Answer, error) { return r.answer(), nil })
			s.chain.grow(100_000) // past every other answer to the same request
			got := s.get(t, r.target())
			if got.status != 200 {
				t.Fatalf("status %d: %s", got.status, got.body)
			}
			want := fields{"code": whole, "msg": documentedShape(r.Path), "error": matching("")}
			for _, v := range breaches("", want, decoded(t, got.body)) {
				t.Error(v)
			}
			if diff := cmp.Diff(map[string]int{}, lost(t, r, got.body)); diff != "" {
				t.Errorf("lost of what the node sent:\n%s", diff)
			}
		})
		checked[addressInPath.ReplaceAllString(r.Path, "/{}")]++
	}
	for path := range documentedMsg {
		if checked[path] == 0 {
			t.Errorf("no recording of %s", path)
		}
	}
}

func TestWhatIsNotDocumentedKeepsTheNodesShape(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for _, r := range recordings(t) {
		if r.Status != 200 || documentedShape(r.Path) != nil || r.Height != "" || refused(r.Name) {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			s.chain.does(func(node.Request) (*node.Answer, error) { return r.answer(), nil })
			s.chain.grow(100_000) // past every other answer to the same request
			if got := s.get(t, r.target()); got.status != 200 || anyNextKey(got.body) != anyNextKey(r.Raw) {
				t.Errorf("status %d: %s", got.status, got.body)
			}
		})
	}
}

// refused says that the node answers what we refuse to ask: addresses of wrong
// lengths and page keys of no form.
func refused(name string) bool {
	for _, part := range []string{"_long_", "_short", "_one_byte", "_key_ff", "_key_garbage", "_overflow", "_bad_percent", "limit_int64_max", "_semicolon"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

var nextKeyText = regexp.MustCompile(`"next_key":"[^"]+"`)

// anyNextKey makes all next page keys alike: ours say a height besides, and
// walk_test.go follows them.
func anyNextKey(body string) string { return nextKeyText.ReplaceAllString(body, `"next_key":"."`) }

func decoded(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// lost lists the leaves of the node's answer, as name and text, that ours has
// fewer of. What moves to another place is not lost.
func lost(t *testing.T, r recording, body string) map[string]int {
	t.Helper()
	missing := map[string]int{}
	countLeaves(missing, "", decoded(t, anyNextKey(r.Raw)), 1)
	countLeaves(missing, "", decoded(t, anyNextKey(body)), -1)
	for leaf, n := range missing {
		paged := strings.HasPrefix(leaf, "next_key=") || strings.HasPrefix(leaf, "total=")
		if n <= 0 || paged && strings.HasSuffix(r.Path, "/period_delegations") { // an array has no place for its pagination
			delete(missing, leaf)
		}
	}
	return missing
}

func countLeaves(into map[string]int, name string, v any, by int) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			countLeaves(into, key, value, by)
		}
	case []any:
		for _, item := range v {
			countLeaves(into, name, item, by)
		}
	case nil: // a list of nothing
	default:
		text, _ := json.Marshal(v)
		into[name+"="+string(text)] += by
	}
}

func TestNothingButTheShapeIsChanged(t *testing.T) {
	tests := []struct{ name, target, sent, want string }{
		{
			"a complete answer stays byte for byte", "/staking/validators/" + val5,
			recorded(t, "ok_validator_v5_bonded_unlocked").Raw, recorded(t, "ok_validator_v5_bonded_unlocked").Raw,
		},
		{
			"spaces, order, escapes and numbers stay", "/staking/validators",
			`{ "error" : "", "msg":{"x":1e400,"pagination" : {} , "validators":null},"code":200}`,
			`{ "error" : "", "msg":{"x":1e400,"pagination" : {"total":"0"} , "validators":[]},"code":200}`,
		},
		{
			"missing lists and pagination appear", "/staking/delegations/" + del0,
			`{"code":200,"msg":{},"error":""}`,
			`{"code":200,"msg":{"delegation_responses":[],"pagination":{"total":"0"}},"error":""}`,
		},
		{
			"a validator's missing fields appear empty", "/staking/validators/" + val5,
			`{"code":200,"msg":{"validator":{"operator_address":"v","jailed":true,"commission":{"update_time":null}}},"error":""}`,
			`{"code":200,"msg":{"validator":{"operator_address":"v","jailed":true,"commission":{"update_time":"1970-01-01T00:00:00Z","commission_rates":` +
				`{"rate":"0.000000000000000000","max_rate":"0.000000000000000000","max_change_rate":"0.000000000000000000"}},` +
				`"consensus_pubkey":{"type":"","value":""},"status":0,"tokens":"0","delegator_shares":"0.000000000000000000",` +
				`"description":{"moniker":""},"unbonding_time":"1970-01-01T00:00:00Z","min_self_delegation":"0",` +
				`"rewards_tokens":"0.000000000000000000","delegator_rewards_shares":"0.000000000000000000"}},"error":""}`,
		},
		{
			"the balance moves into its period delegation", "/staking/validators/" + val5 + "/delegators/" + del0 + "/period_delegations",
			`{"code":200,"msg":{"period_delegation_responses":[{"balance":{"denom":"stake"},"period_delegation":{"period_delegation_id":"7","end_time":"2026-11-20T11:31:00.835809384Z","period_type":1}}]},"error":""}`,
			`{"code":200,"msg":[{"period_delegation_id":"7","end_time":"2026-11-20T11:31:00.835809384Z","period_type":1,"balance":{"denom":"stake","amount":"0"},` +
				`"delegator_address":"","validator_address":"","shares":"0.000000000000000000","rewards_shares":"0.000000000000000000"}],"error":""}`,
		},
		{
			"a validator with two denoms gets two entries", "/distribution/delegators/" + del0 + "/rewards",
			`{"code":200,"msg":{"rewards":[{"validator_address":"v","reward":[{"denom":"a","amount":"1.5"},{"denom":"b","amount":"2.5"}],"x":1}],"total":null},"error":""}`,
			`{"code":200,"msg":{"rewards":[{"validator_address":"v","reward":{"denom":"a","amount":"1.5"},"x":1},{"validator_address":"v","reward":{"denom":"b","amount":"2.5"},"x":1}],"total":null},"error":""}`,
		},
		{
			"a validator that gave nothing gets an empty entry", "/distribution/delegators/" + del0 + "/rewards",
			`{"code":200,"msg":{"rewards":[{"validator_address":"v","reward":null},{"validator_address":"w"},{"validator_address":"x","reward":[]}],"total":null},"error":""}`,
			`{"code":200,"msg":{"rewards":[{"validator_address":"v","reward":{"denom":"","amount":"0"}},{"validator_address":"w","reward":{"denom":"","amount":"0"}},{"validator_address":"x","reward":{"denom":"","amount":"0"}}],"total":null},"error":""}`,
		},
		{
			"no rewards are an empty list", "/distribution/delegators/" + del0 + "/rewards",
			`{"code":200,"msg":{"rewards":null,"total":[]},"error":""}`, `{"code":200,"msg":{"rewards":[],"total":[]},"error":""}`,
		},
		{
			"rewards that are missing are an empty list", "/distribution/delegators/" + del0 + "/rewards",
			`{"code":200,"msg":{"total":[]},"error":""}`, `{"code":200,"msg":{"rewards":[],"total":[]},"error":""}`,
		},
		{
			"a total that is missing is null", "/distribution/delegators/" + del0 + "/rewards",
			`{"code":200,"msg":{},"error":""}`, `{"code":200,"msg":{"rewards":[],"total":null},"error":""}`,
		},
		{
			"what is not documented stays as it is", "/bank/params",
			`{"code":200,"msg":{"params":null},"error":""}`, `{"code":200,"msg":{"params":null},"error":""}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startChain(t, proxy.Options{})
			s.chain.says(200, tt.sent)
			got := s.get(t, tt.target)
			if diff := cmp.Diff(tt.want, got.body); diff != "" {
				t.Errorf("status %d, body (-want +got):\n%s", got.status, diff)
			}
		})
	}
}
