package story

import (
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/story/documented"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Route is a row of the table of Story's paths.
type Route struct {
	dialect.Row
	page    pageKeyFormat      // of the list's keys; nil if the path takes no pagination.*
	Msg     *documented.Schema // schema of msg; nil passes on the node's bytes
	Summary string             // what it is for, in a line
	Doc     string             // further details
}

var row = dialect.NewRow

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
	{Row: row("validators", "/staking/validators", blocks.Live, node.Page, "status pagination", staking+"Validators"), page: lengthPrefixed, Msg: documented.Validators,
		Summary: "List validators", Doc: "With their stake, commission and keys, in the order of their addresses."},
	{Row: row("validator", "/staking/validators/{validator_addr}", blocks.Live, node.Cheap, "", staking+"Validator"), Msg: documented.Validator, Summary: "Get a validator"},
	{Row: row("validator_delegations", "/staking/validators/{validator_addr}/delegations", blocks.Live, node.Page, "pagination", staking+"ValidatorDelegations"), page: bareAddress, Msg: documented.Delegations,
		Summary: "List the delegations to a validator", Doc: "An unknown validator has none."},
	{Row: row("delegator_delegations", "/staking/delegations/{delegator_addr}", blocks.Live, node.Page, "pagination", staking+"DelegatorDelegations"), page: lengthPrefixed, Msg: documented.Delegations,
		Summary: "List the delegations of a delegator", Doc: "An unknown delegator has none."},
	{Row: row("redelegations", "/staking/delegators/{delegator_addr}/redelegations", blocks.Live, node.Page, "src_validator_addr dst_validator_addr pagination", staking+"Redelegations"), page: twoLengthPrefixed, Msg: documented.Redelegations,
		Summary: "List the redelegations of a delegator", Doc: "Stake that is moving from one validator to another. If both validators are given, only redelegations between them."},
	{Row: row("delegator_validator", "/staking/delegators/{delegator_addr}/validators/{validator_addr}", blocks.Live, node.Cheap, "", staking+"DelegatorValidator"), Msg: documented.Validator,
		Summary: "Get a validator that a delegator delegates to", Doc: "404 if the delegator does not delegate to it."},
	{Row: row("delegation", "/staking/validators/{validator_addr}/delegations/{delegator_addr}", blocks.Live, node.Cheap, "", staking+"Delegation"), Msg: documented.Delegation, Summary: "Get a delegation"},
	{Row: row("period_delegations", "/staking/validators/{validator_addr}/delegators/{delegator_addr}/period_delegations", blocks.Live, node.Page, "pagination", staking+"PeriodDelegations"), page: decimalDigits, Msg: documented.PeriodDelegations,
		Summary: "List the period delegations of a delegation", Doc: "The parts of a delegation by staking period; id 0 is stake without a period. They are sorted by id as text. `msg` is the array itself, so the next page is named by a `Link` header with `rel=\"next\"`."},
	{Row: row("staking_params", "/staking/params", blocks.Params, node.Cheap, "", staking+"Params"), Msg: documented.StakingParams, Summary: "Get the parameters of staking"},
	{Row: row("delegator_rewards", "/distribution/delegators/{delegator_address}/rewards", blocks.Live, node.Page, "", distribution+"DelegationTotalRewards"), Msg: documented.Rewards,
		Summary: "List the rewards of a delegator", Doc: "Rewards of each delegation since the last withdrawal, one entry per denomination. A validator without rewards has an entry with an amount of 0."},
	{Row: row("distribution_params", "/distribution/params", blocks.Params, node.Cheap, "", distribution+"Params"), Msg: documented.DistributionParams, Summary: "Get the parameters of distribution"},
	{Row: row("auth_params", "/auth/params", blocks.Params, node.Cheap, "", "/cosmos.auth.v1beta1.Query/Params"), Msg: documented.AuthParams, Summary: "Get the parameters of transactions"},

	{Row: row("bank_params", "/bank/params", blocks.Params, node.Cheap, "", bank+"Params"), Summary: "Get the parameters of transfers"},
	{Row: row("supply", "/bank/supply/by_denom", blocks.Live, node.Cheap, "denom", bank+"SupplyOf"),
		Summary: "Get the supply of a denomination", Doc: "An unknown denomination has a supply of 0."},
	{Row: row("balance", "/bank/balances/{address}/by_denom", blocks.Live, node.Cheap, "denom", bank+"Balance"),
		Summary: "Get a balance", Doc: "An unknown address has a balance of 0."},
	{Row: row("spendable_balance", "/bank/spendable_balances/{address}/by_denom", blocks.Live, node.Cheap, "denom", bank+"SpendableBalanceByDenom"),
		Summary: "Get a spendable balance", Doc: "The balance without locked tokens."},

	{Row: row("validator_distribution", "/distribution/validators/{validator_addr}", blocks.Live, node.Cheap, "", distribution+"ValidatorDistributionInfo"),
		Summary: "Get the withdrawable rewards of a validator", Doc: "Its own rewards and its commission."},
	{Row: row("validator_commission", "/distribution/validators/{validator_addr}/commission", blocks.Live, node.Cheap, "", distribution+"ValidatorCommission"),
		Summary: "Get the commission of a validator", Doc: "The commission that has not been withdrawn."},
	{Row: row("validator_outstanding_rewards", "/distribution/validators/{validator_addr}/outstanding_rewards", blocks.Live, node.Cheap, "", distribution+"ValidatorOutstandingRewards"),
		Summary: "Get the outstanding rewards of a validator", Doc: "All rewards that the validator and its delegators have not withdrawn."},
	{Row: row("validator_slashes", "/distribution/validators/{validator_addr}/slashes", blocks.Live, node.Page, "starting_height ending_height pagination", distribution+"ValidatorSlashes"), page: twoNumbers,
		Summary: "List the slashes of a validator", Doc: "All slashes, or those between two blocks."},
	{Row: row("rewarding_validators", "/distribution/delegators/{delegator_address}/validators", blocks.Live, node.Page, "", distribution+"DelegatorValidators"), Summary: "List the validators that pay rewards to a delegator"},
	{Row: row("delegation_rewards", "/distribution/delegators/{delegator_address}/rewards/{validator_addr}", blocks.Live, node.Cheap, "", distribution+"DelegationRewards"),
		Summary: "Get the rewards of a delegation", Doc: "The rewards since the last withdrawal."},

	{Row: row("pending_upgrade", "/evmengine/pending_upgrade", blocks.Live, node.Cheap, "", ""), Summary: "Get the pending upgrade"},
	{Row: row("evmstaking_params", "/evmstaking/params", blocks.Params, node.Cheap, "", evmstaking+"Params"), Summary: "Get the parameters of withdrawals"},
	{Row: row("withdrawal_queue", "/evmstaking/withdrawal_queue", blocks.Live, node.Page, "pagination", evmstaking+"GetWithdrawalQueue"), page: oneNumber,
		Summary: "List the withdrawals of stake", Doc: "Withdrawals that are due and queued for a block."},
	{Row: row("reward_withdrawal_queue", "/evmstaking/reward_withdrawal_queue", blocks.Live, node.Page, "pagination", evmstaking+"GetRewardWithdrawalQueue"), page: oneNumber,
		Summary: "List the withdrawals of rewards", Doc: "Withdrawals that are due and queued for a block."},
	{Row: row("operator_address", "/evmstaking/delegators/{delegator_addr}/operator_address", blocks.Live, node.Cheap, "", evmstaking+"GetOperatorAddress"),
		Summary: "Get the operator of a delegator", Doc: "The address that may act for the delegator. `msg` is empty if there is none."},
	{Row: row("withdraw_address", "/evmstaking/delegators/{delegator_addr}/withdraw_address", blocks.Live, node.Cheap, "", evmstaking+"GetWithdrawAddress"),
		Summary: "Get the withdrawal address of a delegator", Doc: "The address that receives unstaked tokens. `msg` is empty if there is none."},
	{Row: row("reward_address", "/evmstaking/delegators/{delegator_addr}/reward_address", blocks.Live, node.Cheap, "", evmstaking+"GetRewardAddress"),
		Summary: "Get the reward address of a delegator", Doc: "The address that receives rewards. `msg` is empty if there is none."},

	{Row: row("mint_params", "/mint/params", blocks.Params, node.Cheap, "", "/story.mint.v1.types.Query/Params"), Summary: "Get the parameters of inflation"},
	{Row: row("slashing_params", "/slashing/params", blocks.Params, node.Cheap, "", slashing+"Params"), Summary: "Get the parameters of slashing"},
	{Row: row("signing_info", "/slashing/signing_infos/{pubkey}", blocks.Live, node.Cheap, "", slashing+"SigningInfo"),
		Summary: "Get the signing record of a validator", Doc: "Missed blocks, and the end of its jail time."},

	{Row: row("pool", "/staking/pool", blocks.Live, node.Cheap, "", staking+"Pool"), Summary: "Get the staking pool"},
	{Row: row("historical_info", "/staking/historical_info/{height}", blocks.Params, node.Page, "", staking+"HistoricalInfo"),
		Summary: "Get the validators of an earlier block", Doc: "With the header of that block. The chain keeps the last `historical_entries` blocks of the staking parameters."},
	{Row: row("total_delegators_count", "/staking/total_delegators_count", blocks.Live, node.Scan, "", ""),
		Summary: "Count the delegators", Doc: "The node reads all delegations."},
	{Row: row("total_staked_token", "/staking/total_staked_token", blocks.Live, node.Scan, "", ""),
		Summary: "Get the total of staked tokens", Doc: "The node reads all validators."},
	{Row: row("validator_delegations_count", "/staking/validators/{validator_addr}/total_delegations_count", blocks.Live, node.Scan, "", ""),
		Summary: "Count the delegations to a validator", Doc: "The node reads all delegations to the validator."},
	{Row: row("validator_unbonding_delegations", "/staking/validators/{validator_addr}/unbonding_delegations", blocks.Live, node.Page, "pagination", staking+"ValidatorUnbondingDelegations"), page: lengthPrefixed,
		Summary: "List the unbonding delegations of a validator", Doc: "Delegations that are being withdrawn."},
	{Row: row("unbonding_delegation", "/staking/validators/{validator_addr}/delegations/{delegator_addr}/unbonding_delegation", blocks.Live, node.Cheap, "", staking+"UnbondingDelegation"), Summary: "Get an unbonding delegation"},
	{Row: row("period_delegation", "/staking/validators/{validator_addr}/delegators/{delegator_addr}/period_delegations/{id}", blocks.Live, node.Cheap, "", staking+"PeriodDelegation"), Summary: "Get a period delegation"},
	{Row: row("delegator_unbonding_delegations", "/staking/delegators/{delegator_addr}/unbonding_delegations", blocks.Live, node.Page, "pagination", staking+"DelegatorUnbondingDelegations"), page: lengthPrefixed,
		Summary: "List the unbonding delegations of a delegator", Doc: "Delegations that are being withdrawn."},
	{Row: row("delegator_validators", "/staking/delegators/{delegator_addr}/validators", blocks.Live, node.Page, "pagination", staking+"DelegatorValidators"), page: lengthPrefixed, Summary: "List the validators of a delegator"},
	{Row: row("delegator_staked_token", "/staking/delegators/{delegator_addr}/staked_token", blocks.Live, node.Page, "", ""), Summary: "List the stake of a delegator by validator"},
	{Row: row("delegator_total_staked_token", "/staking/delegators/{delegator_addr}/total_staked_token", blocks.Live, node.Page, "", ""),
		Summary: "Get the total stake of a delegator", Doc: "The sum of all its delegations."},
	{Row: row("delegator_rewards_token", "/staking/delegators/{delegator_addr}/rewards_token", blocks.Live, node.Page, "", ""),
		Summary: "List the reward shares of a delegator by validator", Doc: "Each delegation, multiplied by the factors of its period and of the validator's token type."},
	{Row: row("delegator_total_rewards_token", "/staking/delegators/{delegator_addr}/total_rewards_token", blocks.Live, node.Page, "", ""),
		Summary: "Get the total reward shares of a delegator", Doc: "The sum of all its delegations, each multiplied by the factors of its period and of the validator's token type."},

	{Row: row("applied_plan", "/upgrade/applied_plan/{name}", blocks.Live, node.Cheap, "", upgrade+"AppliedPlan"),
		Summary: "Get the block at which an upgrade was applied", Doc: "`msg` is empty if the upgrade was not applied."},
	{Row: row("upgrade_authority", "/upgrade/authority", blocks.Params, node.Cheap, "", upgrade+"Authority"), Summary: "Get the authority of upgrades"},
	{Row: row("current_plan", "/upgrade/current_plan", blocks.Live, node.Cheap, "", upgrade+"CurrentPlan"),
		Summary: "Get the planned upgrade", Doc: "`msg` is empty if there is none."},
	{Row: row("module_versions", "/upgrade/module_versions", blocks.Params, node.Cheap, "module_name", upgrade+"ModuleVersions"),
		Summary: "List the versions of the modules", Doc: "The versions of all modules, or of the named one."},

	{Row: row("dkg_latest_active", "/dkg/latest_active", blocks.Live, node.Cheap, "", dkg+"GetLatestActiveDKGNetwork"), Msg: documented.DKGNetwork,
		Summary: "Get the active key generation", Doc: "The latest round whose committee is active. The response is 404 before the first."},
	{Row: row("dkg_network", "/dkg/dkg_network", blocks.Live, node.Cheap, "round code_commitment_hex", dkg+"GetDKGNetwork"), Msg: documented.DKGNetwork,
		Summary: "Get the key generation of a round"},
	{Row: row("dkg_global_public_key", "/dkg/global_public_key", blocks.Live, node.Cheap, "", ""), Msg: documented.DKGPublicKey,
		Summary: "Get the public key of the committee", Doc: "The key of the active key generation. The response is 404 until the key is set."},
	{Row: row("dkg_registrations", "/dkg/registrations", blocks.Live, node.Page, "round", dkg+"GetAllDKGRegistrations"), Msg: documented.DKGRegistrations,
		Summary: "List the registrations of a round", Doc: "Registrations of every status. The list is empty for an unknown round."},
	{Row: row("dkg_verified_registrations", "/dkg/registrations/verified", blocks.Live, node.Page, "round code_commitment_hex", dkg+"GetAllVerifiedDKGRegistrations"), Msg: documented.DKGRegistrations,
		Summary: "List the verified registrations of a round", Doc: "Registrations that are verified and not yet finalized. The list is empty for most rounds."},
	{Row: row("cdr_partials", "/dkg/cdr_partials", blocks.Live, node.Page, "uuid requester_pub_key_hex", dkg+"GetCDRPartials"), Msg: documented.CDRPartials,
		Summary: "List the partial decryptions for a requester", Doc: "Grouped by round and ciphertext. The response is 404 until there is one."},
}

// Table returns all routes: the operator's, then the built-in ones.
func Table(own []dialect.Row) (all []Route) {
	for _, row := range own {
		all = append(all, Route{Row: row, Summary: "Read " + row.Name})
	}
	return append(all, routes...)
}

// Rows returns the rows of all routes.
func Rows(own []dialect.Row) (rows []dialect.Row) {
	for _, rt := range Table(own) {
		rows = append(rows, rt.Row)
	}
	return rows
}
