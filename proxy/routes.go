package proxy

import (
	"fmt"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/node"
)

// A route is one row of the table: all there is to know about a path of the
// chain's interface. Router, cache key, query allow-list, the node's
// concurrency limits, metrics, the reshaping of answers and the OpenAPI document
// (openapi.go) read it.
type route struct {
	name    string      // metric label and operation id
	pattern string      // path; a segment with a colon is a parameter, read by its name (parameters.go)
	class   class       // how long an answer serves
	cost    node.Cost   // what a read costs the node
	query   []string    // parameters read from the query, besides pagination.*
	page    pageKeyForm // nil: the path takes no pagination.*
	msg     *form       // what the documented msg is; nil: the node's own bytes
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
var routes = []route{
	{name: "validators", pattern: "/staking/validators", cost: node.Page, query: []string{"status"}, page: lengthPrefixed, msg: validatorsMsg},
	{name: "validator", pattern: "/staking/validators/:validator_addr", msg: validatorMsg},
	{name: "validator_delegations", pattern: "/staking/validators/:validator_addr/delegations", cost: node.Page, page: bareAddress, msg: delegationsMsg},
	{name: "delegator_delegations", pattern: "/staking/delegations/:delegator_addr", cost: node.Page, page: lengthPrefixed, msg: delegationsMsg},
	{name: "redelegations", pattern: "/staking/delegators/:delegator_addr/redelegations", cost: node.Page, query: []string{"src_validator_addr", "dst_validator_addr"}, page: twoLengthPrefixed, msg: redelegationsMsg},
	{name: "delegator_validator", pattern: "/staking/delegators/:delegator_addr/validators/:validator_addr", msg: validatorMsg},
	{name: "delegation", pattern: "/staking/validators/:validator_addr/delegations/:delegator_addr", msg: delegationMsg},
	{name: "period_delegations", pattern: "/staking/validators/:validator_addr/delegators/:delegator_addr/period_delegations", cost: node.Page, page: decimalDigits, msg: periodDelegationsMsg},
	{name: "staking_params", pattern: "/staking/params", class: params, msg: stakingParamsMsg},
	{name: "delegator_rewards", pattern: "/distribution/delegators/:delegator_address/rewards", cost: node.Page, msg: rewardsMsg},
	{name: "distribution_params", pattern: "/distribution/params", class: params, msg: distributionParamsMsg},
	{name: "auth_params", pattern: "/auth/params", class: params, msg: authParamsMsg},

	{name: "bank_params", pattern: "/bank/params", class: params},
	{name: "supply", pattern: "/bank/supply/by_denom", query: []string{"denom"}},
	{name: "balance", pattern: "/bank/balances/:address/by_denom", query: []string{"denom"}},
	{name: "spendable_balance", pattern: "/bank/spendable_balances/:address/by_denom", query: []string{"denom"}},

	{name: "validator_distribution", pattern: "/distribution/validators/:validator_addr"},
	{name: "validator_commission", pattern: "/distribution/validators/:validator_addr/commission"},
	{name: "validator_outstanding_rewards", pattern: "/distribution/validators/:validator_addr/outstanding_rewards"},
	{name: "validator_slashes", pattern: "/distribution/validators/:validator_addr/slashes", cost: node.Page, query: []string{"starting_height", "ending_height"}, page: twoNumbers},
	{name: "rewarding_validators", pattern: "/distribution/delegators/:delegator_address/validators", cost: node.Page},
	{name: "delegation_rewards", pattern: "/distribution/delegators/:delegator_address/rewards/:validator_addr"},

	{name: "pending_upgrade", pattern: "/evmengine/pending_upgrade"},
	{name: "evmstaking_params", pattern: "/evmstaking/params", class: params},
	{name: "withdrawal_queue", pattern: "/evmstaking/withdrawal_queue", cost: node.Page, page: oneNumber},
	{name: "reward_withdrawal_queue", pattern: "/evmstaking/reward_withdrawal_queue", cost: node.Page, page: oneNumber},
	{name: "operator_address", pattern: "/evmstaking/delegators/:delegator_addr/operator_address"},
	{name: "withdraw_address", pattern: "/evmstaking/delegators/:delegator_addr/withdraw_address"},
	{name: "reward_address", pattern: "/evmstaking/delegators/:delegator_addr/reward_address"},

	{name: "mint_params", pattern: "/mint/params", class: params},
	{name: "slashing_params", pattern: "/slashing/params", class: params},
	{name: "signing_info", pattern: "/slashing/signing_infos/:pubkey"},

	{name: "pool", pattern: "/staking/pool"},
	{name: "historical_info", pattern: "/staking/historical_info/:height", class: params, cost: node.Page},
	{name: "total_delegators_count", pattern: "/staking/total_delegators_count", cost: node.Scan},
	{name: "total_staked_token", pattern: "/staking/total_staked_token", cost: node.Scan},
	{name: "validator_delegations_count", pattern: "/staking/validators/:validator_addr/total_delegations_count", cost: node.Scan},
	{name: "validator_unbonding_delegations", pattern: "/staking/validators/:validator_addr/unbonding_delegations", cost: node.Page, page: lengthPrefixed},
	{name: "unbonding_delegation", pattern: "/staking/validators/:validator_addr/delegations/:delegator_addr/unbonding_delegation"},
	{name: "period_delegation", pattern: "/staking/validators/:validator_addr/delegators/:delegator_addr/period_delegations/:id"},
	{name: "delegator_unbonding_delegations", pattern: "/staking/delegators/:delegator_addr/unbonding_delegations", cost: node.Page, page: lengthPrefixed},
	{name: "delegator_validators", pattern: "/staking/delegators/:delegator_addr/validators", cost: node.Page, page: lengthPrefixed},
	{name: "delegator_staked_token", pattern: "/staking/delegators/:delegator_addr/staked_token", cost: node.Page},
	{name: "delegator_total_staked_token", pattern: "/staking/delegators/:delegator_addr/total_staked_token", cost: node.Page},
	{name: "delegator_rewards_token", pattern: "/staking/delegators/:delegator_addr/rewards_token", cost: node.Page},
	{name: "delegator_total_rewards_token", pattern: "/staking/delegators/:delegator_addr/total_rewards_token", cost: node.Page},

	{name: "applied_plan", pattern: "/upgrade/applied_plan/:name"},
	{name: "upgrade_authority", pattern: "/upgrade/authority", class: params},
	{name: "current_plan", pattern: "/upgrade/current_plan"},
	{name: "module_versions", pattern: "/upgrade/module_versions", class: params, query: []string{"module_name"}},
}

// RouteClass names the freshness class of a route, "live" or "params"; ok is
// false where no route has the name.
func RouteClass(name string) (class string, ok bool) {
	for _, rt := range routes {
		if rt.name == name {
			return rt.class.String(), true
		}
	}
	return "", false
}

// knownRoutes refuses policies for routes that are not in the table.
func knownRoutes(policies map[string]cache.Policy) error {
	for name := range policies {
		if _, ok := RouteClass(name); !ok {
			return fmt.Errorf("proxy: no route is called %q", name)
		}
	}
	return nil
}
