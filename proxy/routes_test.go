package proxy_test

import (
	"net/url"
	"regexp"
	"slices"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

const pubkey = "0x0320b5268d4d2367c052d0a0acb3cb7a3dd4496dfc656d47f91c852e1a0452b171"

const requesterKey = "04abababababababababababababababababababababababababababababababababababababababababababababababababababababababababababababababab"

// readPaths has at least one request for each row of Story, by cost.
var readPaths = map[node.Cost][]string{
	node.Cheap: {
		"/auth/params", "/bank/params", "/bank/supply/by_denom?denom=stake", "/bank/balances/" + del0 + "/by_denom?denom=stake",
		"/bank/spendable_balances/" + del0 + "/by_denom?denom=ibc%2FAB", "/distribution/params", "/distribution/validators/" + val5,
		"/distribution/validators/" + val5 + "/commission", "/distribution/validators/" + val5 + "/outstanding_rewards",
		"/distribution/delegators/" + del0 + "/rewards/" + val5, "/evmengine/pending_upgrade", "/evmstaking/params",
		"/evmstaking/delegators/" + del0 + "/operator_address", "/evmstaking/delegators/" + del0 + "/withdraw_address",
		"/evmstaking/delegators/" + del0 + "/reward_address", "/mint/params", "/slashing/params", "/slashing/signing_infos/" + pubkey,
		"/staking/params", "/staking/pool", "/staking/validators/" + val5, "/staking/delegators/" + del0 + "/validators/" + val5,
		"/staking/validators/" + val5 + "/delegations/" + del0, "/staking/validators/" + val5 + "/delegations/" + del0 + "/unbonding_delegation",
		"/staking/validators/" + val5 + "/delegators/" + del0 + "/period_delegations/007", "/upgrade/applied_plan/v1%20x",
		"/dkg/latest_active", "/dkg/dkg_network?round=2", "/dkg/global_public_key",
		"/upgrade/authority", "/upgrade/current_plan", "/upgrade/module_versions?module_name=staking",
	},
	node.Page: {
		"/distribution/validators/" + val5 + "/slashes?starting_height=1&ending_height=9&pagination.key=%00%00%00%00%00%00%00%01%00%00%00%00%00%00%00%02",
		"/distribution/delegators/" + del0 + "/validators", "/distribution/delegators/" + del0 + "/rewards",
		"/evmstaking/withdrawal_queue?pagination.key=%00%00%00%00%00%00%00%A0", "/evmstaking/reward_withdrawal_queue", "/staking/historical_info/100",
		"/staking/validators?status=BOND_STATUS_UNBONDING", "/staking/validators/" + val5 + "/delegations?pagination.limit=1000",
		"/staking/validators/" + val5 + "/unbonding_delegations", "/staking/validators/" + val5 + "/delegators/" + del0 + "/period_delegations",
		"/staking/delegations/" + del0, "/staking/delegators/" + del0 + "/redelegations?src_validator_addr=" + val5 + "&dst_validator_addr=" + val6,
		"/staking/delegators/" + del0 + "/unbonding_delegations", "/staking/delegators/" + del0 + "/validators",
		"/staking/delegators/" + del0 + "/staked_token", "/staking/delegators/" + del0 + "/total_staked_token",
		"/dkg/registrations?round=3", "/dkg/registrations/verified?round=3", "/dkg/cdr_partials?uuid=42&requester_pub_key_hex=" + requesterKey,
		"/staking/delegators/" + del0 + "/rewards_token", "/staking/delegators/" + del0 + "/total_rewards_token",
	},
	node.Scan: {
		"/staking/total_delegators_count", "/staking/total_staked_token", "/staking/validators/" + val5 + "/total_delegations_count",
		"/staking/validators/" + val5 + "/delegations?pagination.limit=1001",
	},
}

func TestReadPathsReachTheNodeWithTheirCosts(t *testing.T) {
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startChain(t, proxy.Options{Story: story.Options{Shape: shape}})
		for cost, targets := range readPaths {
			for _, target := range targets {
				before := s.chain.calls()
				s.get(t, target)
				if s.chain.calls() != before+1 {
					t.Errorf("%s: node requests for %s = %d, want 1", shape, target, s.chain.calls()-before)
					continue
				}
				r := s.chain.lastRequest()
				if r.Cost != cost || r.Height != node.AtTip {
					t.Errorf("%s: node request for %s costs %s at %d, want %s at the tip", shape, target, r.Cost, r.Height, cost)
				}
				expect.NoDiff(t, (&url.URL{Path: r.Path, RawQuery: r.Query}).String(), target, "%s: target of the node request", shape)
			}
		}
	}
}

// Paths of all dialects that read the same method have the same cost.
func TestMethodHasOneCost(t *testing.T) {
	seen := map[string]node.Cost{}
	for _, row := range slices.Concat(story.Rows(nil), cosmos.Rows(nil)) {
		if before, ok := seen[row.Method]; ok && before != row.Cost {
			t.Errorf("cost of %s in row %s = %s, want %s as in another row", row.Method, row.Name, row.Cost, before)
		}
		if row.Method == "" {
			continue
		}
		seen[row.Method] = row.Cost
		if service := regexp.MustCompile(`^/[a-z0-9_.]+\.v[0-9a-z.]+\.Service/[A-Za-z]+$`); !state.ReadsState(row.Method) && !service.MatchString(row.Method) {
			t.Errorf("method of row %s = %q, want one of a Query or Service", row.Name, row.Method)
		}
	}
	for method, want := range map[string]node.Cost{
		"/cosmos.bank.v1beta1.Query/DenomOwners": node.Page, "/cosmos.base.tendermint.v1beta1.Service/ABCIQuery": node.Page,
		"/ibc.applications.transfer.v1.Query/Denoms": node.Page, "/ibc.core.channel.v1.Query/Channels": node.Page,
		"/story.evmstaking.v1.types.Query/GetWithdrawalQueue": node.Page, "/cosmwasm.wasm.v1.Query/ContractInfo": node.Cheap,
	} {
		if got, ok := seen[method]; !ok || got != want {
			t.Errorf("cost of %s = %s, known: %t; want %s", method, got, ok, want)
		}
	}
}
