package story

import (
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/story/documented"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Route is a row of the table of Story's paths.
type Route struct {
	dialect.Row
	page pageKeyFormat      // of the list's keys; nil if the path takes no pagination.*
	Msg  *documented.Schema // schema of msg; nil passes on the node's bytes
}

func row(name, pattern string, class blocks.Class, cost node.Cost, query, method string) dialect.Row {
	return dialect.Row{Name: name, Pattern: pattern, Class: class, Cost: cost, Query: query, Method: method}
}

// The services of gRPC.
const (
	bank         = "/cosmos.bank.v1beta1.Query/"
	dkg          = "/story.dkg.v1.types.Query/"
	distribution = "/cosmos.distribution.v1beta1.Query/"
	evmstaking   = "/story.evmstaking.v1.types.Query/"
	slashing     = "/cosmos.slashing.v1beta1.Query/"
	staking      = "/cosmos.staking.v1beta1.Query/"
	upgrade      = "/cosmos.upgrade.v1beta1.Query/"
)

// routes has the documented paths first, then the other paths of the node, which have no Msg and keep the node's shape,
// and last those of /dkg, which nodes have since release 1.6. Their Msg adds absent zero values.
var routes = []Route{
	{Row: row("validators", "/staking/validators", blocks.Live, node.Page, "status pagination", staking+"Validators"), page: lengthPrefixed, Msg: documented.Validators},
	{Row: row("validator", "/staking/validators/{validator_addr}", blocks.Live, node.Cheap, "", staking+"Validator"), Msg: documented.Validator},
	{Row: row("validator_delegations", "/staking/validators/{validator_addr}/delegations", blocks.Live, node.Page, "pagination", staking+"ValidatorDelegations"), page: bareAddress, Msg: documented.Delegations},
	{Row: row("delegator_delegations", "/staking/delegations/{delegator_addr}", blocks.Live, node.Page, "pagination", staking+"DelegatorDelegations"), page: lengthPrefixed, Msg: documented.Delegations},
	{Row: row("redelegations", "/staking/delegators/{delegator_addr}/redelegations", blocks.Live, node.Page, "src_validator_addr dst_validator_addr pagination", staking+"Redelegations"), page: twoLengthPrefixed, Msg: documented.Redelegations},
	{Row: row("delegator_validator", "/staking/delegators/{delegator_addr}/validators/{validator_addr}", blocks.Live, node.Cheap, "", staking+"DelegatorValidator"), Msg: documented.Validator},
	{Row: row("delegation", "/staking/validators/{validator_addr}/delegations/{delegator_addr}", blocks.Live, node.Cheap, "", staking+"Delegation"), Msg: documented.Delegation},
	{Row: row("period_delegations", "/staking/validators/{validator_addr}/delegators/{delegator_addr}/period_delegations", blocks.Live, node.Page, "pagination", staking+"PeriodDelegations"), page: decimalDigits, Msg: documented.PeriodDelegations},
	{Row: row("staking_params", "/staking/params", blocks.Params, node.Cheap, "", staking+"Params"), Msg: documented.StakingParams},
	{Row: row("delegator_rewards", "/distribution/delegators/{delegator_address}/rewards", blocks.Live, node.Page, "", distribution+"DelegationTotalRewards"), Msg: documented.Rewards},
	{Row: row("distribution_params", "/distribution/params", blocks.Params, node.Cheap, "", distribution+"Params"), Msg: documented.DistributionParams},
	{Row: row("auth_params", "/auth/params", blocks.Params, node.Cheap, "", "/cosmos.auth.v1beta1.Query/Params"), Msg: documented.AuthParams},

	{Row: row("bank_params", "/bank/params", blocks.Params, node.Cheap, "", bank+"Params")},
	{Row: row("supply", "/bank/supply/by_denom", blocks.Live, node.Cheap, "denom", bank+"SupplyOf")},
	{Row: row("balance", "/bank/balances/{address}/by_denom", blocks.Live, node.Cheap, "denom", bank+"Balance")},
	{Row: row("spendable_balance", "/bank/spendable_balances/{address}/by_denom", blocks.Live, node.Cheap, "denom", bank+"SpendableBalanceByDenom")},

	{Row: row("validator_distribution", "/distribution/validators/{validator_addr}", blocks.Live, node.Cheap, "", distribution+"ValidatorDistributionInfo")},
	{Row: row("validator_commission", "/distribution/validators/{validator_addr}/commission", blocks.Live, node.Cheap, "", distribution+"ValidatorCommission")},
	{Row: row("validator_outstanding_rewards", "/distribution/validators/{validator_addr}/outstanding_rewards", blocks.Live, node.Cheap, "", distribution+"ValidatorOutstandingRewards")},
	{Row: row("validator_slashes", "/distribution/validators/{validator_addr}/slashes", blocks.Live, node.Page, "starting_height ending_height pagination", distribution+"ValidatorSlashes"), page: twoNumbers},
	{Row: row("rewarding_validators", "/distribution/delegators/{delegator_address}/validators", blocks.Live, node.Page, "", distribution+"DelegatorValidators")},
	{Row: row("delegation_rewards", "/distribution/delegators/{delegator_address}/rewards/{validator_addr}", blocks.Live, node.Cheap, "", distribution+"DelegationRewards")},

	{Row: row("pending_upgrade", "/evmengine/pending_upgrade", blocks.Live, node.Cheap, "", "")},
	{Row: row("evmstaking_params", "/evmstaking/params", blocks.Params, node.Cheap, "", evmstaking+"Params")},
	{Row: row("withdrawal_queue", "/evmstaking/withdrawal_queue", blocks.Live, node.Page, "pagination", evmstaking+"GetWithdrawalQueue"), page: oneNumber},
	{Row: row("reward_withdrawal_queue", "/evmstaking/reward_withdrawal_queue", blocks.Live, node.Page, "pagination", evmstaking+"GetRewardWithdrawalQueue"), page: oneNumber},
	{Row: row("operator_address", "/evmstaking/delegators/{delegator_addr}/operator_address", blocks.Live, node.Cheap, "", evmstaking+"GetOperatorAddress")},
	{Row: row("withdraw_address", "/evmstaking/delegators/{delegator_addr}/withdraw_address", blocks.Live, node.Cheap, "", evmstaking+"GetWithdrawAddress")},
	{Row: row("reward_address", "/evmstaking/delegators/{delegator_addr}/reward_address", blocks.Live, node.Cheap, "", evmstaking+"GetRewardAddress")},

	{Row: row("mint_params", "/mint/params", blocks.Params, node.Cheap, "", "/story.mint.v1.types.Query/Params")},
	{Row: row("slashing_params", "/slashing/params", blocks.Params, node.Cheap, "", slashing+"Params")},
	{Row: row("signing_info", "/slashing/signing_infos/{pubkey}", blocks.Live, node.Cheap, "", slashing+"SigningInfo")},

	{Row: row("pool", "/staking/pool", blocks.Live, node.Cheap, "", staking+"Pool")},
	{Row: row("historical_info", "/staking/historical_info/{height}", blocks.Params, node.Page, "", staking+"HistoricalInfo")},
	{Row: row("total_delegators_count", "/staking/total_delegators_count", blocks.Live, node.Scan, "", "")},
	{Row: row("total_staked_token", "/staking/total_staked_token", blocks.Live, node.Scan, "", "")},
	{Row: row("validator_delegations_count", "/staking/validators/{validator_addr}/total_delegations_count", blocks.Live, node.Scan, "", "")},
	{Row: row("validator_unbonding_delegations", "/staking/validators/{validator_addr}/unbonding_delegations", blocks.Live, node.Page, "pagination", staking+"ValidatorUnbondingDelegations"), page: lengthPrefixed},
	{Row: row("unbonding_delegation", "/staking/validators/{validator_addr}/delegations/{delegator_addr}/unbonding_delegation", blocks.Live, node.Cheap, "", staking+"UnbondingDelegation")},
	{Row: row("period_delegation", "/staking/validators/{validator_addr}/delegators/{delegator_addr}/period_delegations/{id}", blocks.Live, node.Cheap, "", staking+"PeriodDelegation")},
	{Row: row("delegator_unbonding_delegations", "/staking/delegators/{delegator_addr}/unbonding_delegations", blocks.Live, node.Page, "pagination", staking+"DelegatorUnbondingDelegations"), page: lengthPrefixed},
	{Row: row("delegator_validators", "/staking/delegators/{delegator_addr}/validators", blocks.Live, node.Page, "pagination", staking+"DelegatorValidators"), page: lengthPrefixed},
	{Row: row("delegator_staked_token", "/staking/delegators/{delegator_addr}/staked_token", blocks.Live, node.Page, "", "")},
	{Row: row("delegator_total_staked_token", "/staking/delegators/{delegator_addr}/total_staked_token", blocks.Live, node.Page, "", "")},
	{Row: row("delegator_rewards_token", "/staking/delegators/{delegator_addr}/rewards_token", blocks.Live, node.Page, "", "")},
	{Row: row("delegator_total_rewards_token", "/staking/delegators/{delegator_addr}/total_rewards_token", blocks.Live, node.Page, "", "")},

	{Row: row("applied_plan", "/upgrade/applied_plan/{name}", blocks.Live, node.Cheap, "", upgrade+"AppliedPlan")},
	{Row: row("upgrade_authority", "/upgrade/authority", blocks.Params, node.Cheap, "", upgrade+"Authority")},
	{Row: row("current_plan", "/upgrade/current_plan", blocks.Live, node.Cheap, "", upgrade+"CurrentPlan")},
	{Row: row("module_versions", "/upgrade/module_versions", blocks.Params, node.Cheap, "module_name", upgrade+"ModuleVersions")},

	{Row: row("dkg_latest_active", "/dkg/latest_active", blocks.Live, node.Cheap, "", dkg+"GetLatestActiveDKGNetwork"), Msg: documented.DKGNetwork},
	{Row: row("dkg_network", "/dkg/dkg_network", blocks.Live, node.Cheap, "round code_commitment_hex", dkg+"GetDKGNetwork"), Msg: documented.DKGNetwork},
	{Row: row("dkg_global_public_key", "/dkg/global_public_key", blocks.Live, node.Cheap, "", ""), Msg: documented.DKGPublicKey},
	{Row: row("dkg_registrations", "/dkg/registrations", blocks.Live, node.Page, "round", dkg+"GetAllDKGRegistrations"), Msg: documented.DKGRegistrations},
	{Row: row("dkg_verified_registrations", "/dkg/registrations/verified", blocks.Live, node.Page, "round code_commitment_hex", dkg+"GetAllVerifiedDKGRegistrations"), Msg: documented.DKGRegistrations},
	{Row: row("cdr_partials", "/dkg/cdr_partials", blocks.Live, node.Page, "uuid requester_pub_key_hex", dkg+"GetCDRPartials"), Msg: documented.CDRPartials},
}

// Table returns all routes: the operator's, then the built-in ones. An operator's row for the paths of a built-in one has its
// schema, and its page keys if it takes pagination and reads state at a block.
func Table(own []dialect.Row) (all []Route) {
	for _, row := range own {
		rt := Route{Row: row}
		if i := slices.IndexFunc(routes, func(b Route) bool { return rt.samePaths(b.Row) }); i >= 0 {
			rt.Msg = routes[i].Msg
			if row.Class.ReadsState() && slices.Contains(strings.Fields(row.Query), dialect.Pagination) {
				rt.page = routes[i].page
			}
		}
		all = append(all, rt)
	}
	return append(all, routes...)
}

// samePaths reports whether two rows match the same paths. Their variables may have different names.
func (rt Route) samePaths(b dialect.Row) bool {
	return rt.Pattern != "" && dialect.Covers(rt.Pattern, b.Pattern) && dialect.Covers(b.Pattern, rt.Pattern)
}

// Rows returns the rows of all routes.
func Rows(own []dialect.Row) (rows []dialect.Row) {
	for _, rt := range Table(own) {
		rows = append(rows, rt.Row)
	}
	return rows
}
