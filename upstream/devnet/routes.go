package devnet

// A route is one path of the node.
type route struct {
	pattern string // as http.ServeMux has it
	request string // the node's request type; "" reads no parameters
	serve   answer
}

// routes are the paths of the node but those whose answers are recorded.
var routes = []route{
	{"/bank/supply/by_denom", "getSupplyByDenomRequest", unless(badDenom, says(`{"amount":{"denom":"{denom}","amount":"{supply}"}}`))},
	{"/bank/balances/{delegator}/by_denom", "getBalancesByAddressDenomRequest", unless(badDenom, says(noBalance))},
	{"/bank/spendable_balances/{delegator}/by_denom", "getSpendableBalancesByAddressDenomRequest", unless(badDenom, says(noBalance))},

	{"/distribution/validators/{validator}", "", unless(noValidator, validatorEarnings)},
	{"/distribution/validators/{validator}/commission", "", unless(noValidator, says(`{"commission":{"commission":{commission}}}`))},
	{"/distribution/validators/{validator}/outstanding_rewards", "", unless(noValidator, says(`{"rewards":{"rewards":{outstanding}}}`))},
	{"/distribution/validators/{validator}/slashes", "getValidatorSlashesByValidatorAddressRequest",
		listing{"slashes", "[]", slashes, bySlash, says(`{"validator_period":"{period}","fraction":"{slash}"}`), slashedWithin}.page},
	{"/distribution/delegators/{delegator}/validators", "", rewardedValidators},
	{"/distribution/delegators/{delegator}/rewards", "", delegatorRewards},
	{"/distribution/delegators/{delegator}/rewards/{validator}", "", unless(noReward, says(`{"rewards":{reward}}`))},

	{"/evmstaking/withdrawal_queue", "getWithdrawalQueueRequest", withdrawals(communityWithdrawal, withdrawal)},
	{"/evmstaking/reward_withdrawal_queue", "getRewardWithdrawalQueueRequest", withdrawals(rewardWithdrawal, rewardWithdrawal)},
	{"/evmstaking/delegators/{delegator}/operator_address", "", addressOr(false, "operator_address", "0x00000000000000000000000000000000000A11cE")},
	{"/evmstaking/delegators/{delegator}/withdraw_address", "", addressOr(true, "withdraw_address", "")},
	{"/evmstaking/delegators/{delegator}/reward_address", "", addressOr(true, "reward_address", "0x00000000000000000000000000000000000000C0")},

	{"/slashing/signing_infos/{key}", "", signingInfo},

	{"/staking/pool", "", says(`{"pool":{"not_bonded_tokens":"{unbonded}","bonded_tokens":"{bonded}"}}`)},
	{"/staking/historical_info/{height}", "", unless(noHistory, says(string(recorded().History)))},
	{"/staking/total_delegators_count", "", says(`{"total":"{delegators}"}`)},
	{"/staking/total_staked_token", "", says(`{"total_staked_token":"{staked}"}`)},
	{"/staking/validators", "getValidatorsRequest", validatorList},
	{"/staking/validators/{validator}", "", unless(notFound, says(`{"validator":`+validatorMessage+`}`))},
	{"/staking/validators/{validator}/delegations", "getValidatorDelegationsByValidatorAddressRequest",
		listing{"delegation_responses", "[]", stakesAt, func(a about) string { return string(a.stake.delegator[:]) }, says(delegationMessage), nil}.page},
	{"/staking/validators/{validator}/delegations/{delegator}", "", unless(noStake, says(`{"delegation_response":`+delegationMessage+`}`))},
	{"/staking/validators/{validator}/total_delegations_count", "", says(`{"total":"{delegations}"}`)},
	{"/staking/validators/{validator}/unbonding_delegations", "getValidatorUnbondingDelegationsRequest",
		listing{"unbonding_responses", "null", unbondingsAt, func(a about) string { return a.record.Delegator.key() }, says("{record}"), nil}.page},
	{"/staking/validators/{validator}/delegations/{delegator}/unbonding_delegation", "", unless(noUnbonding, says(`{"unbond":{record}}`))},
	{"/staking/validators/{validator}/delegators/{delegator}/period_delegations", "getPeriodDelegationsRequest",
		listing{"period_delegation_responses", "[]", lots, func(a about) string { return a.lot.ID }, says(lotMessage), nil}.page},
	{"/staking/validators/{validator}/delegators/{delegator}/period_delegations/{id}", "", unless(noLot, says(`{"period_delegation_response":`+lotMessage+`}`))},
	{"/staking/delegations/{delegator}", "getDelegationsByDelegatorAddressRequest",
		listing{"delegation_responses", "[]", stakesOf, byOperator, says(delegationMessage), nil}.page},
	{"/staking/delegators/{delegator}/redelegations", "getRedelegationsByDelegatorAddressRequest", redelegations},
	{"/staking/delegators/{delegator}/unbonding_delegations", "getUnbondingDelegationsByDelegatorAddressRequest",
		listing{"unbonding_responses", "null", unbondingsOf, func(a about) string { return a.record.Validator.key() }, says("{record}"), nil}.page},
	{"/staking/delegators/{delegator}/validators", "getValidatorsByDelegatorAddressRequest",
		listing{"validators", "null", stakesOf, byOperator, says(validatorMessage), nil}.page},
	{"/staking/delegators/{delegator}/validators/{validator}", "", unless(noTuple, says(`{"validator":`+validatorMessage+`}`))},
	{"/staking/delegators/{delegator}/staked_token", "getStakedTokenByDelegatorAddressRequest", delegatorTokens("staked_token")},
	{"/staking/delegators/{delegator}/total_staked_token", "", delegatorSum("staked_token")},
	{"/staking/delegators/{delegator}/rewards_token", "getRewardsTokenByDelegatorAddressRequest", delegatorTokens("rewards_token")},
	{"/staking/delegators/{delegator}/total_rewards_token", "", delegatorSum("rewards_token")},

	{"/upgrade/module_versions", "getModuleVersionsRequest", moduleVersions},
}

// delegatorTokens answers with what a delegator has at each validator.
func delegatorTokens(name string) answer {
	item := says(`{"validator_operator_address":"{operator}","` + name + `":"{tokens}.000000000000000000"}`)
	return listing{"delegation_" + name, "null", stakesOf, byOperator, item, nil}.page
}
