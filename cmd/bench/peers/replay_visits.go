package peers

import (
	"net/url"
	"strings"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// The modules whose queries wallets and explorers ask when they start.
const (
	sdkStaking  = "/cosmos/staking/v1beta1"
	sdkBank     = "/cosmos/bank/v1beta1"
	sdkComet    = "/cosmos/base/tendermint/v1beta1"
	sdkGov      = "/cosmos/gov/v1"
	newestBlock = sdkComet + "/blocks/latest"
	aboutNode   = "/node_info"
)

// theBlock stands in a path for the height of the newest block that the visitor has seen.
const theBlock = "{block}"

// walletVisit is what a wallet asks of its owner when it starts, and again at each poll.
func walletVisit(owner string) []string {
	return []string{
		"/cosmos/auth/v1beta1/accounts/" + owner,
		sdkBank + "/balances/" + owner + "?pagination.limit=1000",
		sdkBank + "/spendable_balances/" + owner + "?pagination.limit=1000",
		sdkStaking + "/delegations/" + owner + "?pagination.limit=1000",
		sdkStaking + "/delegators/" + owner + "/unbonding_delegations?pagination.limit=1000",
		"/cosmos/distribution/v1beta1/delegators/" + owner + "/rewards",
		"/cosmos/authz/v1beta1/grants/granter/" + owner + "?pagination.limit=1000",
		sdkStaking + "/validators?pagination.limit=1000&status=BOND_STATUS_BONDED",
		sdkStaking + "/pool",
		sdkStaking + "/params",
		sdkComet + aboutNode,
	}
}

// explorerVisit is what the first page of an explorer asks.
func explorerVisit() []string {
	sender := url.QueryEscape("message.sender='" + cosmos.WideDelegator + "'")
	return []string{
		newestBlock, sdkComet + "/blocks/" + theBlock,
		sdkStaking + "/validators?pagination.limit=300&status=BOND_STATUS_BONDED",
		sdkStaking + "/validators?pagination.limit=300&status=BOND_STATUS_UNBONDING",
		sdkStaking + "/validators?pagination.limit=300&status=BOND_STATUS_UNBONDED",
		sdkStaking + "/pool", sdkStaking + "/params",
		"/cosmos/slashing/v1beta1/params", "/cosmos/slashing/v1beta1/signing_infos?pagination.limit=300",
		"/cosmos/distribution/v1beta1/params", "/cosmos/mint/v1beta1/params", "/cosmos/mint/v1beta1/inflation",
		sdkBank + "/params", sdkBank + "/supply/by_denom?denom=stake",
		sdkGov + "/params/voting", sdkGov + "/params/tallying", sdkGov + "/params/deposit",
		sdkGov + "/proposals?pagination.limit=50&pagination.reverse=true&proposal_status=2", sdkGov + "/proposals/10/tally",
		"/cosmos/tx/v1beta1/txs?query=" + sender + "&order_by=ORDER_BY_DESC&limit=20",
	}
}

// pathAt is a path with the block in its place.
func pathAt(path, block string) string { return strings.ReplaceAll(path, theBlock, block) }
