package devnet

// A route is one path of the node.
type route struct {
	pattern string // as http.ServeMux has it
	request string // the node's request type; "" reads no parameters
	serve   func(*query) error
}

// routes are the paths of the node but those whose answers are recorded.
var routes = []route{
	{"/bank/supply/by_denom", "getSupplyByDenomRequest", supply},
	{"/bank/balances/{delegator}/by_denom", "getBalancesByAddressDenomRequest", balance},
	{"/bank/spendable_balances/{delegator}/by_denom", "getSpendableBalancesByAddressDenomRequest", balance},

	{"/distribution/validators/{validator}", "", ofValidator(validatorEarnings)},
	{"/distribution/validators/{validator}/commission", "", ofValidator(validatorCommission)},
	{"/distribution/validators/{validator}/outstanding_rewards", "", ofValidator(outstandingRewards)},
	{"/distribution/validators/{validator}/slashes", "getValidatorSlashesByValidatorAddressRequest", validatorSlashes},
	{"/distribution/delegators/{delegator}/validators", "", rewardedValidators},
	{"/distribution/delegators/{delegator}/rewards", "", delegatorRewards},
	{"/distribution/delegators/{delegator}/rewards/{validator}", "", delegationRewards},

	{"/evmstaking/withdrawal_queue", "getWithdrawalQueueRequest", withdrawals(step, "")},
	{"/evmstaking/reward_withdrawal_queue", "getRewardWithdrawalQueueRequest", withdrawals(8*billion, `,"withdrawal_type":1`)},
	{"/evmstaking/delegators/{delegator}/operator_address", "", addressOr(false, "operator_address", "0x00000000000000000000000000000000000A11cE")},
	{"/evmstaking/delegators/{delegator}/withdraw_address", "", addressOr(true, "withdraw_address", "")},
	{"/evmstaking/delegators/{delegator}/reward_address", "", addressOr(true, "reward_address", "0x00000000000000000000000000000000000000C0")},

	{"/slashing/signing_infos/{key}", "", signingInfo},

	{"/staking/pool", "", stakingPool},
	{"/staking/historical_info/{height}", "", historicalInfo},
	{"/staking/total_delegators_count", "", delegatorCount},
	{"/staking/total_staked_token", "", totalStaked},
	{"/staking/validators", "getValidatorsRequest", validatorList},
	{"/staking/validators/{validator}", "", validatorSingle},
	{"/staking/validators/{validator}/delegations", "getValidatorDelegationsByValidatorAddressRequest", validatorDelegations},
	{"/staking/validators/{validator}/delegations/{delegator}", "", delegationSingle},
	{"/staking/validators/{validator}/total_delegations_count", "", delegationCount},
	{"/staking/validators/{validator}/unbonding_delegations", "getValidatorUnbondingDelegationsRequest", validatorUnbondings},
	{"/staking/validators/{validator}/delegations/{delegator}/unbonding_delegation", "", unbondingSingle},
	{"/staking/validators/{validator}/delegators/{delegator}/period_delegations", "getPeriodDelegationsRequest", periodDelegations},
	{"/staking/validators/{validator}/delegators/{delegator}/period_delegations/{id}", "", periodDelegation},
	{"/staking/delegations/{delegator}", "getDelegationsByDelegatorAddressRequest", delegatorDelegations},
	{"/staking/delegators/{delegator}/redelegations", "getRedelegationsByDelegatorAddressRequest", redelegations},
	{"/staking/delegators/{delegator}/unbonding_delegations", "getUnbondingDelegationsByDelegatorAddressRequest", delegatorUnbondings},
	{"/staking/delegators/{delegator}/validators", "getValidatorsByDelegatorAddressRequest", delegatorValidators},
	{"/staking/delegators/{delegator}/validators/{validator}", "", delegatorValidator},
	{"/staking/delegators/{delegator}/staked_token", "getStakedTokenByDelegatorAddressRequest", delegatorTokens("staked_token", state.stakedToken)},
	{"/staking/delegators/{delegator}/total_staked_token", "", delegatorSum("staked_token", state.stakedToken)},
	{"/staking/delegators/{delegator}/rewards_token", "getRewardsTokenByDelegatorAddressRequest", delegatorTokens("rewards_token", state.rewardsToken)},
	{"/staking/delegators/{delegator}/total_rewards_token", "", delegatorSum("rewards_token", state.rewardsToken)},

	{"/upgrade/module_versions", "getModuleVersionsRequest", moduleVersions},
}
