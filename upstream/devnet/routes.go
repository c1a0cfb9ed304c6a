package devnet

import "strings"

// A route is one path of the node.
type route struct {
	pattern string // {} stands for one segment
	request string // the node's request type; "" reads no parameters
	serve   func(*query) error
}

// routes are the paths of the node.
var routes = []route{
	{"/auth/params", "", constant(authParams)},

	{"/bank/params", "", constant(bankParams)},
	{"/bank/supply/by_denom", "getSupplyByDenomRequest", supply},
	{"/bank/balances/{}/by_denom", "getBalancesByAddressDenomRequest", balance},
	{"/bank/spendable_balances/{}/by_denom", "getSpendableBalancesByAddressDenomRequest", balance},

	{"/distribution/params", "", constant(distributionParams)},
	{"/distribution/validators/{}", "", validatorEarnings},
	{"/distribution/validators/{}/commission", "", validatorCommission},
	{"/distribution/validators/{}/outstanding_rewards", "", outstandingRewards},
	{"/distribution/validators/{}/slashes", "getValidatorSlashesByValidatorAddressRequest", validatorSlashes},
	{"/distribution/delegators/{}/validators", "", rewardedValidators},
	{"/distribution/delegators/{}/rewards", "", delegatorRewards},
	{"/distribution/delegators/{}/rewards/{}", "", delegationRewards},

	{"/evmengine/pending_upgrade", "", constant(pendingUpgrade)},

	{"/evmstaking/params", "", constant(evmstakingParams)},
	{"/evmstaking/withdrawal_queue", "getWithdrawalQueueRequest", withdrawalQueue},
	{"/evmstaking/reward_withdrawal_queue", "getRewardWithdrawalQueueRequest", rewardWithdrawalQueue},
	{"/evmstaking/delegators/{}/operator_address", "", operatorAddress},
	{"/evmstaking/delegators/{}/withdraw_address", "", withdrawAddress},
	{"/evmstaking/delegators/{}/reward_address", "", rewardAddress},

	{"/mint/params", "", constant(mintParams)},

	{"/slashing/params", "", constant(slashingParams)},
	{"/slashing/signing_infos/{}", "", signingInfo},

	{"/staking/params", "", constant(stakingParams)},
	{"/staking/pool", "", stakingPool},
	{"/staking/historical_info/{}", "", historicalInfo},
	{"/staking/total_delegators_count", "", delegatorCount},
	{"/staking/total_staked_token", "", totalStaked},
	{"/staking/validators", "getValidatorsRequest", validatorList},
	{"/staking/validators/{}", "", validatorSingle},
	{"/staking/validators/{}/delegations", "getValidatorDelegationsByValidatorAddressRequest", validatorDelegations},
	{"/staking/validators/{}/delegations/{}", "", delegationSingle},
	{"/staking/validators/{}/total_delegations_count", "", delegationCount},
	{"/staking/validators/{}/unbonding_delegations", "getValidatorUnbondingDelegationsRequest", validatorUnbondings},
	{"/staking/validators/{}/delegations/{}/unbonding_delegation", "", unbondingSingle},
	{"/staking/validators/{}/delegators/{}/period_delegations", "getPeriodDelegationsRequest", periodDelegations},
	{"/staking/validators/{}/delegators/{}/period_delegations/{}", "", periodDelegation},
	{"/staking/delegations/{}", "getDelegationsByDelegatorAddressRequest", delegatorDelegations},
	{"/staking/delegators/{}/redelegations", "getRedelegationsByDelegatorAddressRequest", redelegations},
	{"/staking/delegators/{}/unbonding_delegations", "getUnbondingDelegationsByDelegatorAddressRequest", delegatorUnbondings},
	{"/staking/delegators/{}/validators", "getValidatorsByDelegatorAddressRequest", delegatorValidators},
	{"/staking/delegators/{}/validators/{}", "", delegatorValidator},
	{"/staking/delegators/{}/staked_token", "getStakedTokenByDelegatorAddressRequest", stakedTokens},
	{"/staking/delegators/{}/total_staked_token", "", totalStakedTokens},
	{"/staking/delegators/{}/rewards_token", "getRewardsTokenByDelegatorAddressRequest", rewardsTokens},
	{"/staking/delegators/{}/total_rewards_token", "", totalRewardsTokens},

	{"/upgrade/applied_plan/{}", "", appliedPlan},
	{"/upgrade/authority", "", constant(upgradeAuthority)},
	{"/upgrade/current_plan", "", constant("{}")},
	{"/upgrade/module_versions", "getModuleVersionsRequest", moduleVersions},
}

// findRoute is the route of a clean path and what stands for {} in it; nil for none.
func findRoute(path string) (*route, []string) {
	for i := range routes {
		if vars, ok := match(routes[i].pattern, path); ok {
			return &routes[i], vars
		}
	}
	return nil, nil
}

// match compares a path to a pattern, segment by segment.
func match(pattern, path string) (vars []string, ok bool) {
	for {
		want, restOfPattern, morePattern := strings.Cut(pattern, "/")
		got, restOfPath, morePath := strings.Cut(path, "/")
		switch {
		case morePattern != morePath:
			return nil, false
		case want == "{}" && got != "":
			vars = append(vars, got)
		case want != got:
			return nil, false
		}
		if !morePattern {
			return vars, true
		}
		pattern, path = restOfPattern, restOfPath
	}
}
