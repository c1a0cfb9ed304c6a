package cosmos

import (
	"net/http"
	"strings"
)

// A route is one path of the API. In its pattern {name} stands for one segment and
// {name=**} for the rest of the path.
type route struct {
	pattern string
	params  string // of the query, by proto name
	serve   handler
	method  string // default GET
	local   bool   // answered beside the application: no height comes in or out
}

// A handler answers a query.
type handler func(*query) (string, error)

const (
	auth         = "/cosmos/auth/v1beta1"
	authz        = "/cosmos/authz/v1beta1"
	bank         = "/cosmos/bank/v1beta1"
	tendermint   = "/cosmos/base/tendermint/v1beta1"
	distribution = "/cosmos/distribution/v1beta1"
	feegrant     = "/cosmos/feegrant/v1beta1"
	gov          = "/cosmos/gov/v1"
	govLegacy    = "/cosmos/gov/v1beta1"
	group        = "/cosmos/group/v1"
	nft          = "/cosmos/nft/v1beta1"
	staking      = "/cosmos/staking/v1beta1"
	transactions = "/cosmos/tx/v1beta1"
	transfer     = "/ibc/apps/transfer/v1"
	wasm         = "/cosmwasm/wasm/v1"
)

// routes are the paths of the API, in the order in which they are tried.
var routes = []route{
	{pattern: auth + "/accounts", params: "pagination", serve: accounts},
	{pattern: auth + "/accounts/{address}", serve: ofAccount("account", state.accountJSON)},
	{pattern: auth + "/account_info/{address}", serve: ofAccount("info", state.accountInfo)},
	{pattern: auth + "/address_by_id/{id}", params: "account_id", serve: failing(fail(invalidArgument, "requesting with id isn't supported, try to request using account-id"))},
	{pattern: auth + "/bech32/{address_bytes}", serve: bech32Of},
	{pattern: auth + "/module_accounts/{name}", serve: documentOr(notFound, "account %s not found", "name")},
	{pattern: authz + "/grants", params: "granter grantee msg_type_url pagination",
		serve: byParameters(documentOr(unknown, "codespace authz code 2: authorization not found: authorization not found for %s type", "msg_type_url"), "granter", "grantee", "msg_type_url")},
	{pattern: authz + "/grants/granter/{granter}", params: "pagination", serve: documentOrEmpty("grants")},
	{pattern: authz + "/grants/grantee/{grantee}", params: "pagination", serve: documentOrEmpty("grants")},
	{pattern: bank + "/balances/{address}", params: "resolve_denom pagination", serve: balances},
	{pattern: bank + "/balances/{address}/by_denom", params: "denom", serve: balanceByDenom},
	{pattern: bank + "/spendable_balances/{address}", params: "pagination", serve: balances},
	{pattern: bank + "/spendable_balances/{address}/by_denom", params: "denom", serve: balanceByDenom},
	{pattern: bank + "/supply", params: "pagination", serve: supplies},
	{pattern: bank + "/supply/by_denom", params: "denom", serve: supplyOf},
	{pattern: bank + "/send_enabled", params: "denoms pagination", serve: sendEnabled},
	{pattern: bank + "/denoms_metadata_by_query_string", params: "denom", serve: byParameters(documentOr(notFound, "client metadata for denom %s", "denom"), "denom")},
	{pattern: bank + "/denoms_metadata/{denom=**}", serve: documentOr(notFound, "client metadata for denom %s", "denom")},
	{pattern: bank + "/denom_owners_by_query", params: "denom pagination", serve: byParameters(documentOrEmpty("denom_owners"), "denom")},
	{pattern: bank + "/denom_owners/{denom=**}", params: "pagination", serve: documentOrEmpty("denom_owners")},
	{pattern: "/cosmos/base/node/v1beta1/status", serve: nodeStatus},
	{pattern: tendermint + "/syncing", serve: syncing},
	{pattern: tendermint + "/blocks/latest", serve: latest(0, block)},
	{pattern: tendermint + "/blocks/{height}", serve: atHeight(block)},
	{pattern: tendermint + "/validatorsets/latest", params: "pagination", serve: latest(1, validatorSet)},
	{pattern: tendermint + "/validatorsets/{height}", params: "pagination", serve: atHeight(validatorSet)},
	{pattern: tendermint + "/abci_query", params: "data path height prove", serve: abciQuery},
	{pattern: distribution + "/validators/{validator_address}", serve: rewarded(earningsOf)},
	{pattern: distribution + "/validators/{validator_address}/commission", serve: rewarded(commissionOf)},
	{pattern: distribution + "/validators/{validator_address}/outstanding_rewards", serve: rewarded(outstandingOf)},
	{pattern: distribution + "/validators/{validator_address}/slashes", params: "starting_height ending_height pagination", serve: rewarded(slashes)},
	{pattern: distribution + "/delegators/{delegator_address}/rewards", serve: delegatorRewards},
	{pattern: distribution + "/delegators/{delegator_address}/rewards/{validator_address}", serve: delegationRewards},
	{pattern: distribution + "/delegators/{delegator_address}/validators", serve: rewardedValidators},
	{pattern: distribution + "/delegators/{delegator_address}/withdraw_address", serve: withdrawAddress},
	{pattern: "/cosmos/epochs/v1beta1/current_epoch", params: "identifier", serve: byParameters(documentOr(unknown, "not available identifier: %s", "identifier"), "identifier")},
	{pattern: "/cosmos/evidence/v1beta1/evidence/{hash}", serve: evidenceOf},
	{pattern: feegrant + "/allowance/{granter}/{grantee}", serve: documentOr(internal, "fee-grant not found: not found")},
	{pattern: feegrant + "/allowances/{grantee}", params: "pagination", serve: documentOrEmpty("allowances")},
	{pattern: feegrant + "/issued/{granter}", params: "pagination", serve: documentOrEmpty("allowances")},
	{pattern: gov + "/params/{params_type}", serve: documentOr(invalidArgument, "unknown params type: %s", "params_type")},
	{pattern: gov + "/proposals", params: "proposal_status voter depositor pagination", serve: proposals},
	{pattern: gov + "/proposals/{proposal_id}", serve: ofProposal(proposalOf)},
	{pattern: gov + "/proposals/{proposal_id}/deposits", params: "pagination", serve: documentOrEmpty("deposits")},
	{pattern: gov + "/proposals/{proposal_id}/deposits/{depositor}", serve: documentOr(invalidArgument, "depositer: %s not found for proposal: %s", "depositor", "proposal_id")},
	{pattern: gov + "/proposals/{proposal_id}/tally", serve: tally("_count")},
	{pattern: gov + "/proposals/{proposal_id}/votes", params: "pagination", serve: votes("", v1Vote)},
	{pattern: gov + "/proposals/{proposal_id}/votes/{voter}", serve: voteOf},
	{pattern: govLegacy + "/params/{params_type}", serve: documentOr(invalidArgument, "unknown params type: %s", "params_type")},
	{pattern: govLegacy + "/proposals", params: "proposal_status voter depositor pagination", serve: failing(errLegacy)},
	{pattern: govLegacy + "/proposals/{proposal_id}", serve: ofProposal(legacyProposalOf)},
	{pattern: govLegacy + "/proposals/{proposal_id}/deposits", params: "pagination", serve: documentOrEmpty("deposits")},
	{pattern: govLegacy + "/proposals/{proposal_id}/tally", serve: tally("")},
	{pattern: govLegacy + "/proposals/{proposal_id}/votes", params: "pagination", serve: votes(legacyVote, "")},
	{pattern: group + "/group_info/{group_id}", serve: documentOr(unknown, "codespace sdk code 38: not found: group")},
	{pattern: group + "/group_policy_info/{address}", serve: documentOr(unknown, "codespace sdk code 38: not found: group policy")},
	{pattern: group + "/group_members/{group_id}", params: "pagination", serve: documentOrEmpty("members")},
	{pattern: group + "/groups_by_admin/{admin}", params: "pagination", serve: documentOrEmpty("groups")},
	{pattern: group + "/groups_by_member/{address}", params: "pagination", serve: documentOrEmpty("groups")},
	{pattern: group + "/group_policies_by_group/{group_id}", params: "pagination", serve: documentOrEmpty("group_policies")},
	{pattern: group + "/group_policies_by_admin/{admin}", params: "pagination", serve: documentOrEmpty("group_policies")},
	{pattern: group + "/proposals_by_group_policy/{address}", params: "pagination", serve: documentOrEmpty("proposals")},
	{pattern: "/cosmos/mint/v1beta1/inflation", serve: inflation},
	{pattern: "/cosmos/mint/v1beta1/annual_provisions", serve: annualProvisions},
	{pattern: nft + "/nfts", params: "class_id owner pagination", serve: byParameters(documentOrEmpty("nfts"), "class_id", "owner")},
	{pattern: nft + "/nfts/{class_id}/{id}", serve: nftOf},
	{pattern: nft + "/classes/{class_id}", serve: documentOr(unknown, "codespace nft code 3: nft class does not exist: not found class: %s", "class_id")},
	{pattern: nft + "/supply/{class_id}", serve: documentOr(unknown, "codespace nft code 3: nft class does not exist: not found class: %s", "class_id")},
	{pattern: "/cosmos/slashing/v1beta1/signing_infos", params: "pagination", serve: signingInfos},
	{pattern: "/cosmos/slashing/v1beta1/signing_infos/{cons_address}", serve: signingInfoOf},
	{pattern: staking + "/validators", params: "status pagination", serve: validators},
	{pattern: staking + "/validators/{validator_addr}", serve: validatorOf},
	{pattern: staking + "/validators/{validator_addr}/delegations", params: "pagination", serve: validatorDelegations},
	{pattern: staking + "/validators/{validator_addr}/unbonding_delegations", params: "pagination", serve: validatorUnbondings},
	{pattern: staking + "/validators/{validator_addr}/delegations/{delegator_addr}", serve: delegationOf},
	{pattern: staking + "/validators/{validator_addr}/delegations/{delegator_addr}/unbonding_delegation", serve: unbondingOf},
	{pattern: staking + "/delegations/{delegator_addr}", params: "pagination", serve: delegations},
	{pattern: staking + "/delegators/{delegator_addr}/unbonding_delegations", params: "pagination", serve: delegatorUnbondings},
	{pattern: staking + "/delegators/{delegator_addr}/redelegations", params: "src_validator_addr dst_validator_addr pagination", serve: redelegations},
	{pattern: staking + "/delegators/{delegator_addr}/validators", params: "pagination", serve: delegatorValidators},
	{pattern: staking + "/delegators/{delegator_addr}/validators/{validator_addr}", serve: delegatorValidator},
	{pattern: staking + "/historical_info/{height}", serve: historicalInfo},
	{pattern: staking + "/pool", serve: pool},
	{pattern: transactions + "/txs", params: "query page limit order_by events pagination", serve: searchTxs},
	{pattern: transactions + "/txs", serve: broadcastTx, method: http.MethodPost, local: true},
	{pattern: transactions + "/txs/{hash}", serve: txByHash},
	{pattern: transactions + "/txs/block/{height}", params: "pagination", serve: txsInBlock},
	{pattern: transactions + "/simulate", serve: ofTx(simulate), method: http.MethodPost},
	{pattern: transactions + "/decode", serve: ofTx(decodeTx), method: http.MethodPost},
	{pattern: "/cosmos/upgrade/v1beta1/applied_plan/{name}", serve: fixed(`{"height":"0"}`)},
	{pattern: "/cosmos/upgrade/v1beta1/module_versions", params: "module_name", serve: moduleVersions},
	{pattern: "/ibc/core/client/v1/client_states/{client_id}", serve: documentOr(notFound, "%s: light client not found", "client_id")},
	{pattern: transfer + "/denoms/{hash=**}", serve: documentOr(invalidArgument, "invalid denom trace hash: , error: expected size to be 32 bytes, got 1 bytes")},
	{pattern: transfer + "/total_escrow/{denom=**}", serve: documentOr(invalidArgument, "invalid denom: %s", "denom")},
	{pattern: transfer + "/channels/{channel_id}/ports/{port_id}/escrow_address", serve: documentOr(notFound, "port ID (%s) channel ID (%s): channel not found", "port_id", "channel_id")},
	{pattern: wasm + "/code-info/{code_id}", serve: documentOr(unknown, "codespace wasm code 28: no such code: code id %s", "code_id")},
	{pattern: wasm + "/contract/{address}", serve: contract(document)},
	{pattern: wasm + "/contract/{address}/history", params: "pagination", serve: contract(document)},
	{pattern: wasm + "/contract/{address}/raw/{query_data}", serve: contract(rawState)},
	{pattern: wasm + "/contract/{address}/smart/{query_data}", serve: contract(smart)},
	{pattern: wasm + "/contracts/creator/{creator_address}", params: "pagination", serve: documentOrEmpty("contract_addresses")},
}

// find is the route of a path, and what stands for the names in its pattern. A path
// without a route of its own may have a document.
func find(method string, components []string) (*route, map[string]string) {
	for i := range routes {
		r := &routes[i]
		if r.method != method && (r.method != "" || method != http.MethodGet) {
			continue
		}
		if vars, ok := match(r.pattern, components); ok {
			return r, vars
		}
	}
	path := "/" + strings.Join(components, "/")
	if _, ok := documents()[path]; ok && method == http.MethodGet {
		return &route{pattern: path, params: "pagination", serve: document}, nil
	}
	return nil, nil
}

// path is where the document of a request is: the path with its numbers in base 10.
func (r *route) path(q *query) string {
	patterns, parts := strings.Split(r.pattern, "/"), strings.Split(q.path, "/")
	for i, pattern := range patterns {
		name := strings.Trim(pattern, "{}")
		if kinds[name] == uint64s || kinds[name] == int64s {
			parts[i] = q.args[name]
		}
	}
	return strings.Join(parts, "/")
}

// match compares a path to a pattern, segment by segment.
func match(pattern string, components []string) (map[string]string, bool) {
	vars := map[string]string{}
	segments := strings.Split(pattern[1:], "/")
	for i, want := range segments {
		name, isVar := strings.CutPrefix(want, "{")
		name = strings.TrimSuffix(name, "}")
		name, rest := strings.CutSuffix(name, "=**")
		switch {
		case i >= len(components):
			return nil, false
		case rest:
			vars[name] = strings.Join(components[i:], "/")
			return vars, true
		case isVar:
			vars[name] = components[i]
		case want != components[i]:
			return nil, false
		}
	}
	return vars, len(segments) == len(components)
}
