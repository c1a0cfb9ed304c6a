package chain

import (
	"fmt"
	"slices"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/chain/documented"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Route is one row of the table: all there is to know about a path of the
// chain's interface. Router, cache key, query allow-list, the node's
// concurrency limits, metrics, the reshaping of answers and the OpenAPI document
// read it.
type Route struct {
	Name    string             // metric label and operation id
	Pattern string             // path; a segment with a colon is a parameter, read by its name (parameters.go)
	class   class              // how long an answer serves
	cost    node.Cost          // what a read costs the node
	Query   []string           // parameters read from the query, besides pagination.*
	page    pageKeyFormat      // nil: the path takes no pagination.*
	Msg     *documented.Schema // what the documented msg is; nil: the node's own bytes
}

// class names the freshness class of a route.
type class int

const (
	live   class = iota // any block may change the answer
	params              // only governance or an upgrade changes it
)

func (c class) String() string { return [...]string{"live", "params"}[c] }

// routes is the table: first the documented paths, then what else the node
// offers to read, which keeps the node's own shape.
var routes = []Route{
	{Name: "validators", Pattern: "/staking/validators", cost: node.Page, Query: []string{"status"}, page: lengthPrefixed, Msg: documented.Validators},
	{Name: "validator", Pattern: "/staking/validators/:validator_addr", Msg: documented.Validator},
	{Name: "validator_delegations", Pattern: "/staking/validators/:validator_addr/delegations", cost: node.Page, page: bareAddress, Msg: documented.Delegations},
	{Name: "delegator_delegations", Pattern: "/staking/delegations/:delegator_addr", cost: node.Page, page: lengthPrefixed, Msg: documented.Delegations},
	{Name: "redelegations", Pattern: "/staking/delegators/:delegator_addr/redelegations", cost: node.Page, Query: []string{"src_validator_addr", "dst_validator_addr"}, page: twoLengthPrefixed, Msg: documented.Redelegations},
	{Name: "delegator_validator", Pattern: "/staking/delegators/:delegator_addr/validators/:validator_addr", Msg: documented.Validator},
	{Name: "delegation", Pattern: "/staking/validators/:validator_addr/delegations/:delegator_addr", Msg: documented.Delegation},
	{Name: "period_delegations", Pattern: "/staking/validators/:validator_addr/delegators/:delegator_addr/period_delegations", cost: node.Page, page: decimalDigits, Msg: documented.PeriodDelegations},
	{Name: "staking_params", Pattern: "/staking/params", class: params, Msg: documented.StakingParams},
	{Name: "delegator_rewards", Pattern: "/distribution/delegators/:delegator_address/rewards", cost: node.Page, Msg: documented.Rewards},
	{Name: "distribution_params", Pattern: "/distribution/params", class: params, Msg: documented.DistributionParams},
	{Name: "auth_params", Pattern: "/auth/params", class: params, Msg: documented.AuthParams},

	{Name: "bank_params", Pattern: "/bank/params", class: params},
	{Name: "supply", Pattern: "/bank/supply/by_denom", Query: []string{"denom"}},
	{Name: "balance", Pattern: "/bank/balances/:address/by_denom", Query: []string{"denom"}},
	{Name: "spendable_balance", Pattern: "/bank/spendable_balances/:address/by_denom", Query: []string{"denom"}},

	{Name: "validator_distribution", Pattern: "/distribution/validators/:validator_addr"},
	{Name: "validator_commission", Pattern: "/distribution/validators/:validator_addr/commission"},
	{Name: "validator_outstanding_rewards", Pattern: "/distribution/validators/:validator_addr/outstanding_rewards"},
	{Name: "validator_slashes", Pattern: "/distribution/validators/:validator_addr/slashes", cost: node.Page, Query: []string{"starting_height", "ending_height"}, page: twoNumbers},
	{Name: "rewarding_validators", Pattern: "/distribution/delegators/:delegator_address/validators", cost: node.Page},
	{Name: "delegation_rewards", Pattern: "/distribution/delegators/:delegator_address/rewards/:validator_addr"},

	{Name: "pending_upgrade", Pattern: "/evmengine/pending_upgrade"},
	{Name: "evmstaking_params", Pattern: "/evmstaking/params", class: params},
	{Name: "withdrawal_queue", Pattern: "/evmstaking/withdrawal_queue", cost: node.Page, page: oneNumber},
	{Name: "reward_withdrawal_queue", Pattern: "/evmstaking/reward_withdrawal_queue", cost: node.Page, page: oneNumber},
	{Name: "operator_address", Pattern: "/evmstaking/delegators/:delegator_addr/operator_address"},
	{Name: "withdraw_address", Pattern: "/evmstaking/delegators/:delegator_addr/withdraw_address"},
	{Name: "reward_address", Pattern: "/evmstaking/delegators/:delegator_addr/reward_address"},

	{Name: "mint_params", Pattern: "/mint/params", class: params},
	{Name: "slashing_params", Pattern: "/slashing/params", class: params},
	{Name: "signing_info", Pattern: "/slashing/signing_infos/:pubkey"},

	{Name: "pool", Pattern: "/staking/pool"},
	{Name: "historical_info", Pattern: "/staking/historical_info/:height", class: params, cost: node.Page},
	{Name: "total_delegators_count", Pattern: "/staking/total_delegators_count", cost: node.Scan},
	{Name: "total_staked_token", Pattern: "/staking/total_staked_token", cost: node.Scan},
	{Name: "validator_delegations_count", Pattern: "/staking/validators/:validator_addr/total_delegations_count", cost: node.Scan},
	{Name: "validator_unbonding_delegations", Pattern: "/staking/validators/:validator_addr/unbonding_delegations", cost: node.Page, page: lengthPrefixed},
	{Name: "unbonding_delegation", Pattern: "/staking/validators/:validator_addr/delegations/:delegator_addr/unbonding_delegation"},
	{Name: "period_delegation", Pattern: "/staking/validators/:validator_addr/delegators/:delegator_addr/period_delegations/:id"},
	{Name: "delegator_unbonding_delegations", Pattern: "/staking/delegators/:delegator_addr/unbonding_delegations", cost: node.Page, page: lengthPrefixed},
	{Name: "delegator_validators", Pattern: "/staking/delegators/:delegator_addr/validators", cost: node.Page, page: lengthPrefixed},
	{Name: "delegator_staked_token", Pattern: "/staking/delegators/:delegator_addr/staked_token", cost: node.Page},
	{Name: "delegator_total_staked_token", Pattern: "/staking/delegators/:delegator_addr/total_staked_token", cost: node.Page},
	{Name: "delegator_rewards_token", Pattern: "/staking/delegators/:delegator_addr/rewards_token", cost: node.Page},
	{Name: "delegator_total_rewards_token", Pattern: "/staking/delegators/:delegator_addr/total_rewards_token", cost: node.Page},

	{Name: "applied_plan", Pattern: "/upgrade/applied_plan/:name"},
	{Name: "upgrade_authority", Pattern: "/upgrade/authority", class: params},
	{Name: "current_plan", Pattern: "/upgrade/current_plan"},
	{Name: "module_versions", Pattern: "/upgrade/module_versions", class: params, Query: []string{"module_name"}},
}

// Table is all the rows.
func Table() []Route { return slices.Clone(routes) }

// Paged says that the path takes pagination.*.
func (rt Route) Paged() bool { return rt.page != nil }

// RouteClass names the freshness class of a route, "live" or "params"; ok is
// false where no route has the name.
func RouteClass(name string) (class string, ok bool) {
	for _, rt := range routes {
		if rt.Name == name {
			return rt.class.String(), true
		}
	}
	return "", false
}

// knownRoutes refuses policies for routes that are not in the table.
func knownRoutes(policies map[string]cache.Policy) error {
	for name := range policies {
		if _, ok := RouteClass(name); !ok {
			return fmt.Errorf("chain: no route is called %q", name)
		}
	}
	return nil
}
