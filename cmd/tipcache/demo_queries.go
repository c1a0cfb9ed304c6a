package main

import (
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// demoQueries are what the demo shows of the chain.
type demoQueries struct {
	paths     []string
	explained string // one of them, whose row is staking_params
}

// demoQueriesOf are those of a dialect. The addresses in them are the first of the simulated chain.
func demoQueriesOf(d devnet.Dialect) demoQueries {
	if d == devnet.Cosmos {
		return cosmosQueries()
	}
	const validator, delegator = devnet.PopularValidator, devnet.WideDelegator
	return demoQueries{explained: "/staking/params", paths: []string{
		"/staking/validators?status=bonded&pagination.limit=2",
		"/staking/validators/" + validator,
		"/staking/validators/" + validator + "/delegations?pagination.limit=2",
		"/staking/delegations/" + delegator,
		"/staking/delegators/" + delegator + "/redelegations",
		"/staking/delegators/" + delegator + "/validators/" + validator,
		"/staking/validators/" + validator + "/delegations/" + delegator,
		"/staking/validators/" + validator + "/delegators/" + delegator + "/period_delegations",
		"/staking/params",
		"/distribution/delegators/" + delegator + "/rewards",
		"/distribution/params",
		"/auth/params",
	}}
}

func cosmosQueries() demoQueries {
	const staking, wasm = "/cosmos/staking/v1beta1", "/cosmwasm/wasm/v1/contract/" + cosmos.Contract
	return demoQueries{explained: staking + "/params", paths: []string{
		staking + "/validators?status=BOND_STATUS_BONDED&pagination.limit=2",
		staking + "/validators/" + cosmos.PopularValidator + "/delegations?pagination.limit=2",
		staking + "/delegations/" + cosmos.WideDelegator,
		staking + "/params",
		"/cosmos/bank/v1beta1/balances/" + cosmos.WideDelegator + "?pagination.limit=2",
		"/cosmos/distribution/v1beta1/delegators/" + cosmos.WideDelegator + "/rewards",
		"/cosmos/gov/v1/proposals/" + cosmos.VotedProposal + "/tally",
		"/cosmos/base/tendermint/v1beta1/blocks/latest",
		"/cosmos/tx/v1beta1/txs/" + cosmos.DelegateTx,
		wasm + "/smart/eyJ2ZXJpZmllciI6e319",
	}}
}
