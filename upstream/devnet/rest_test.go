package devnet_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// Most routes are compared to a real node; these are the others.
func TestRoutesAnswerAsDocumented(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	someone := d.Delegators()[100]
	for uri, want := range map[string]string{
		"/upgrade/authority":                                            `{"code":200,"msg":{"address":"story10d07y265gmmuvt4z0w9aw880jnsr700jwlq95x"},"error":""}`,
		"/upgrade/applied_plan/nope":                                    `{"code":200,"msg":{},"error":""}`,
		"/upgrade/module_versions/":                                     "404 page not found",
		"/staking/historical_info/2000":                                 `{"code":500,"msg":null,"error":"rpc error: code = NotFound desc = historical info for height 2000 not found"}`,
		"/slashing/signing_infos/0x1234":                                `{"code":500,"msg":null,"error":"invalid public key length: got 2, expected 33"}`,
		"/bank/spendable_balances/" + someone + "/by_denom?denom=stake": `{"code":200,"msg":{"balance":{"denom":"stake","amount":"0"}},"error":""}`,
		"/bank/balances/nope/by_denom?denom=stake":                      `{"code":500,"msg":null,"error":"hex string without 0x prefix"}`,
		"/staking/validators?pagination.limit=x&pagination.offset=y": `{"code":500,"msg":null,"error":"decode ` + "`server.getValidatorsRequest`" + ` query err: 2 error(s) decoding:\n\n` +
			`* error decoding 'pagination.limit': strconv.ParseUint: parsing \"x\": invalid syntax\n` +
			`* error decoding 'pagination.offset': strconv.ParseUint: parsing \"y\": invalid syntax"}`,
		"/staking/delegators/" + someone + "/redelegations?src_validator_addr=nope": `{"code":500,"msg":null,"error":"hex string without 0x prefix"}`,
	} {
		_, body := fetch(t, d.NodeURL()+uri, 0)
		if diff := cmp.Diff(want+"\n", body); diff != "" {
			t.Errorf("%s (-want +got):\n%s", uri, diff)
		}
	}
}

func TestAddressesOfADelegatorAreItsOwnUnlessSet(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	own := strings.ToLower(d.Delegators()[100])
	for _, name := range []string{"withdraw_address", "reward_address"} {
		body := get(t, d, "/evmstaking/delegators/"+own+"/"+name, 0)
		if !strings.Contains(strings.ToLower(body), `"`+name+`":"`+own+`"`) {
			t.Errorf("%s: %s", name, body)
		}
	}
}

func TestSumsOverTheWholeChain(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	var all struct {
		Msg struct {
			Total string `json:"total_staked_token"`
		}
	}
	decode(t, get(t, d, "/staking/total_staked_token", 0), &all)
	if len(all.Msg.Total) < 17 {
		t.Errorf("total staked %q", all.Msg.Total)
	}
	if body := get(t, d, "/distribution/validators/"+v5+"/outstanding_rewards", 0); !strings.Contains(body, `{"rewards":{"rewards":[{"denom":"stake","amount":"`) {
		t.Error(body)
	}
}

func TestTheSamplesExist(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Delegators: 50})
	if got := []int{len(d.Validators()), len(d.Delegators())}; !cmp.Equal(got, []int{71, 50}) {
		t.Errorf("%v validators and delegators", got)
	}
	for _, uri := range []string{
		"/staking/validators/" + devnet.PopularValidator,
		"/staking/delegators/" + devnet.WideDelegator + "/validators/" + devnet.PopularValidator,
		"/staking/validators/" + devnet.PopularValidator + "/delegations/" + devnet.PeriodicDelegator,
	} {
		if status, body := fetch(t, d.NodeURL()+uri, 0); status != http.StatusOK {
			t.Errorf("%s: %s", uri, body)
		}
	}
}
