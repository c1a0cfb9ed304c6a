package chain

import (
	"slices"

	"github.com/tipcache/tipcache/proxy/chain/documented"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Route is a row of the table of Story's paths.
type Route struct {
	Row
	page pageKeyFormat      // of the list's keys; nil: the path takes no pagination.*
	Msg  *documented.Schema // what the documented msg is; nil: the node's own bytes
}

// routes is the table: first the documented paths, then what else the node
// offers to read, which keeps the node's own shape.
var routes = []Route{
	{Row: Row{"validators", "/staking/validators", Live, node.Page, "status pagination"}, page: lengthPrefixed, Msg: documented.Validators},
	{Row: Row{"validator", "/staking/validators/{validator_addr}", Live, node.Cheap, ""}, Msg: documented.Validator},
	{Row: Row{"validator_delegations", "/staking/validators/{validator_addr}/delegations", Live, node.Page, "pagination"}, page: bareAddress, Msg: documented.Delegations},
	{Row: Row{"delegator_delegations", "/staking/delegations/{delegator_addr}", Live, node.Page, "pagination"}, page: lengthPrefixed, Msg: documented.Delegations},
	{Row: Row{"redelegations", "/staking/delegators/{delegator_addr}/redelegations", Live, node.Page, "src_validator_addr dst_validator_addr pagination"}, page: twoLengthPrefixed, Msg: documented.Redelegations},
	{Row: Row{"delegator_validator", "/staking/delegators/{delegator_addr}/validators/{validator_addr}", Live, node.Cheap, ""}, Msg: documented.Validator},
	{Row: Row{"delegation", "/staking/validators/{validator_addr}/delegations/{delegator_addr}", Live, node.Cheap, ""}, Msg: documented.Delegation},
	{Row: Row{"period_delegations", "/staking/validators/{validator_addr}/delegators/{delegator_addr}/period_delegations", Live, node.Page, "pagination"}, page: decimalDigits, Msg: documented.PeriodDelegations},
	{Row: Row{"staking_params", "/staking/params", Params, node.Cheap, ""}, Msg: documented.StakingParams},
	{Row: Row{"delegator_rewards", "/distribution/delegators/{delegator_address}/rewards", Live, node.Page, ""}, Msg: documented.Rewards},
	{Row: Row{"distribution_params", "/distribution/params", Params, node.Cheap, ""}, Msg: documented.DistributionParams},
	{Row: Row{"auth_params", "/auth/params", Params, node.Cheap, ""}, Msg: documented.AuthParams},

	{Row: Row{"bank_params", "/bank/params", Params, node.Cheap, ""}},
	{Row: Row{"supply", "/bank/supply/by_denom", Live, node.Cheap, "denom"}},
	{Row: Row{"balance", "/bank/balances/{address}/by_denom", Live, node.Cheap, "denom"}},
	{Row: Row{"spendable_balance", "/bank/spendable_balances/{address}/by_denom", Live, node.Cheap, "denom"}},

	{Row: Row{"validator_distribution", "/distribution/validators/{validator_addr}", Live, node.Cheap, ""}},
	{Row: Row{"validator_commission", "/distribution/validators/{validator_addr}/commission", Live, node.Cheap, ""}},
	{Row: Row{"validator_outstanding_rewards", "/distribution/validators/{validator_addr}/outstanding_rewards", Live, node.Cheap, ""}},
	{Row: Row{"validator_slashes", "/distribution/validators/{validator_addr}/slashes", Live, node.Page, "starting_height ending_height pagination"}, page: twoNumbers},
	{Row: Row{"rewarding_validators", "/distribution/delegators/{delegator_address}/validators", Live, node.Page, ""}},
	{Row: Row{"delegation_rewards", "/distribution/delegators/{delegator_address}/rewards/{validator_addr}", Live, node.Cheap, ""}},

	{Row: Row{"pending_upgrade", "/evmengine/pending_upgrade", Live, node.Cheap, ""}},
	{Row: Row{"evmstaking_params", "/evmstaking/params", Params, node.Cheap, ""}},
	{Row: Row{"withdrawal_queue", "/evmstaking/withdrawal_queue", Live, node.Page, "pagination"}, page: oneNumber},
	{Row: Row{"reward_withdrawal_queue", "/evmstaking/reward_withdrawal_queue", Live, node.Page, "pagination"}, page: oneNumber},
	{Row: Row{"operator_address", "/evmstaking/delegators/{delegator_addr}/operator_address", Live, node.Cheap, ""}},
	{Row: Row{"withdraw_address", "/evmstaking/delegators/{delegator_addr}/withdraw_address", Live, node.Cheap, ""}},
	{Row: Row{"reward_address", "/evmstaking/delegators/{delegator_addr}/reward_address", Live, node.Cheap, ""}},

	{Row: Row{"mint_params", "/mint/params", Params, node.Cheap, ""}},
	{Row: Row{"slashing_params", "/slashing/params", Params, node.Cheap, ""}},
	{Row: Row{"signing_info", "/slashing/signing_infos/{pubkey}", Live, node.Cheap, ""}},

	{Row: Row{"pool", "/staking/pool", Live, node.Cheap, ""}},
	{Row: Row{"historical_info", "/staking/historical_info/{height}", Params, node.Page, ""}},
	{Row: Row{"total_delegators_count", "/staking/total_delegators_count", Live, node.Scan, ""}},
	{Row: Row{"total_staked_token", "/staking/total_staked_token", Live, node.Scan, ""}},
	{Row: Row{"validator_delegations_count", "/staking/validators/{validator_addr}/total_delegations_count", Live, node.Scan, ""}},
	{Row: Row{"validator_unbonding_delegations", "/staking/validators/{validator_addr}/unbonding_delegations", Live, node.Page, "pagination"}, page: lengthPrefixed},
	{Row: Row{"unbonding_delegation", "/staking/validators/{validator_addr}/delegations/{delegator_addr}/unbonding_delegation", Live, node.Cheap, ""}},
	{Row: Row{"period_delegation", "/staking/validators/{validator_addr}/delegators/{delegator_addr}/period_delegations/{id}", Live, node.Cheap, ""}},
	{Row: Row{"delegator_unbonding_delegations", "/staking/delegators/{delegator_addr}/unbonding_delegations", Live, node.Page, "pagination"}, page: lengthPrefixed},
	{Row: Row{"delegator_validators", "/staking/delegators/{delegator_addr}/validators", Live, node.Page, "pagination"}, page: lengthPrefixed},
	{Row: Row{"delegator_staked_token", "/staking/delegators/{delegator_addr}/staked_token", Live, node.Page, ""}},
	{Row: Row{"delegator_total_staked_token", "/staking/delegators/{delegator_addr}/total_staked_token", Live, node.Page, ""}},
	{Row: Row{"delegator_rewards_token", "/staking/delegators/{delegator_addr}/rewards_token", Live, node.Page, ""}},
	{Row: Row{"delegator_total_rewards_token", "/staking/delegators/{delegator_addr}/total_rewards_token", Live, node.Page, ""}},

	{Row: Row{"applied_plan", "/upgrade/applied_plan/{name}", Live, node.Cheap, ""}},
	{Row: Row{"upgrade_authority", "/upgrade/authority", Params, node.Cheap, ""}},
	{Row: Row{"current_plan", "/upgrade/current_plan", Live, node.Cheap, ""}},
	{Row: Row{"module_versions", "/upgrade/module_versions", Params, node.Cheap, "module_name"}},
}

// Table is all the routes.
func Table() []Route { return slices.Clone(routes) }

// Rows are the rows of all the routes.
func Rows() []Row {
	rows := make([]Row, len(routes))
	for i, rt := range routes {
		rows[i] = rt.Row
	}
	return rows
}
