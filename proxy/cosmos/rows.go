package cosmos

import (
	"net/http"

	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/node"
)

// The prefixes of the modules.
const (
	auth     = "/cosmos/auth/v1beta1"
	authz    = "/cosmos/authz/v1beta1"
	bank     = "/cosmos/bank/v1beta1"
	comet    = "/cosmos/base/tendermint/v1beta1"
	distr    = "/cosmos/distribution/v1beta1"
	feegrant = "/cosmos/feegrant/v1beta1"
	gov      = "/cosmos/gov/v1"
	govBeta  = "/cosmos/gov/v1beta1"
	group    = "/cosmos/group/v1"
	nft      = "/cosmos/nft/v1beta1"
	slashing = "/cosmos/slashing/v1beta1"
	staking  = "/cosmos/staking/v1beta1"
	txs      = "/cosmos/tx/v1beta1"
	channel  = "/ibc/core/channel/v1"
	client   = "/ibc/core/client/v1"
	connects = "/ibc/core/connection/v1"
	transfer = "/ibc/apps/transfer/v1"
	wasm     = "/cosmwasm/wasm/v1"
)

// table is the rows of the SDK's own modules, of ibc and of wasm, and at last the
// generic one. The first row that fits a path is its row.
var table = []Row{
	{"auth_accounts", auth + "/accounts", Live, node.Page, "pagination"},
	{"auth_account", auth + "/accounts/{address}", Live, node.Cheap, ""},
	{"auth_account_info", auth + "/account_info/{address}", Live, node.Cheap, ""},
	{"auth_address_by_id", auth + "/address_by_id/{id:int64}", Live, node.Cheap, "account_id"},
	{"auth_module_accounts", auth + "/module_accounts", Live, node.Cheap, ""},
	{"auth_module_account", auth + "/module_accounts/{name}", Live, node.Cheap, ""},
	{"auth_bech32", auth + "/bech32", Params, node.Cheap, ""},
	{"auth_bech32_of_bytes", auth + "/bech32/{address_bytes}", Params, node.Cheap, ""},
	{"auth_params", auth + "/params", Params, node.Cheap, ""},
	{"authz_grants", authz + "/grants", Live, node.Cheap, "granter grantee msg_type_url pagination"},
	{"authz_granter", authz + "/grants/granter/{granter}", Live, node.Page, "pagination"},
	{"authz_grantee", authz + "/grants/grantee/{grantee}", Live, node.Page, "pagination"},
	{"bank_balances", bank + "/balances/{address}", Live, node.Cheap, "resolve_denom pagination"},
	{"bank_balance", bank + "/balances/{address}/by_denom", Live, node.Cheap, "denom"},
	{"bank_spendable", bank + "/spendable_balances/{address}", Live, node.Cheap, "pagination"},
	{"bank_spendable_by_denom", bank + "/spendable_balances/{address}/by_denom", Live, node.Cheap, "denom"},
	{"bank_supply", bank + "/supply", Live, node.Page, "pagination"},
	{"bank_supply_by_denom", bank + "/supply/by_denom", Live, node.Cheap, "denom"},
	{"bank_params", bank + "/params", Params, node.Cheap, ""},
	{"bank_send_enabled", bank + "/send_enabled", Params, node.Cheap, "denoms pagination"},
	{"bank_denoms_metadata", bank + "/denoms_metadata", Live, node.Page, "pagination"},
	{"bank_denom_metadata_by_query", bank + "/denoms_metadata_by_query_string", Live, node.Cheap, "denom"},
	{"bank_denom_metadata", bank + "/denoms_metadata/{denom=**}", Live, node.Cheap, ""},
	{"bank_denom_owners_by_query", bank + "/denom_owners_by_query", Live, node.Page, "denom pagination"},
	{"bank_denom_owners", bank + "/denom_owners/{denom=**}", Live, node.Page, "pagination"},
	{"circuit_accounts", "/cosmos/circuit/v1/accounts", Live, node.Cheap, "pagination"},
	{"circuit_account", "/cosmos/circuit/v1/accounts/{address}", Live, node.Cheap, ""},
	{"circuit_disabled", "/cosmos/circuit/v1/disable_list", Live, node.Cheap, ""},
	{"consensus_params", "/cosmos/consensus/v1/params", Params, node.Cheap, ""},
	{"distribution_params", distr + "/params", Params, node.Cheap, ""},
	{"distribution_validator", distr + "/validators/{validator_address}", Live, node.Cheap, ""},
	{"distribution_commission", distr + "/validators/{validator_address}/commission", Live, node.Cheap, ""},
	{"distribution_outstanding", distr + "/validators/{validator_address}/outstanding_rewards", Live, node.Cheap, ""},
	{"distribution_slashes", distr + "/validators/{validator_address}/slashes", Live, node.Page, "starting_height ending_height pagination"},
	{"distribution_rewards", distr + "/delegators/{delegator_address}/rewards", Live, node.Page, ""},
	{"distribution_rewards_at", distr + "/delegators/{delegator_address}/rewards/{validator_address}", Live, node.Cheap, ""},
	{"distribution_validators", distr + "/delegators/{delegator_address}/validators", Live, node.Cheap, ""},
	{"distribution_withdraw_address", distr + "/delegators/{delegator_address}/withdraw_address", Live, node.Cheap, ""},
	{"distribution_community_pool", distr + "/community_pool", Live, node.Cheap, ""},
	{"epochs", "/cosmos/epochs/v1beta1/epochs", Live, node.Cheap, ""},
	{"epochs_current", "/cosmos/epochs/v1beta1/current_epoch", Live, node.Cheap, "identifier"},
	{"evidence_list", "/cosmos/evidence/v1beta1/evidence", Live, node.Page, "pagination"},
	{"evidence", "/cosmos/evidence/v1beta1/evidence/{hash:text}", Live, node.Cheap, "evidence_hash:bytes"},
	{"feegrant_allowance", feegrant + "/allowance/{granter}/{grantee}", Live, node.Cheap, ""},
	{"feegrant_allowances", feegrant + "/allowances/{grantee}", Live, node.Page, "pagination"},
	{"feegrant_issued", feegrant + "/issued/{granter}", Live, node.Page, "pagination"},
	{"gov_constitution", gov + "/constitution", Params, node.Cheap, ""},
	{"gov_params", gov + "/params/{params_type}", Params, node.Cheap, ""},
	{"gov_proposals", gov + "/proposals", Live, node.Page, "proposal_status voter depositor pagination"},
	{"gov_proposal", gov + "/proposals/{proposal_id}", Live, node.Cheap, ""},
	{"gov_deposits", gov + "/proposals/{proposal_id}/deposits", Live, node.Page, "pagination"},
	{"gov_deposit", gov + "/proposals/{proposal_id}/deposits/{depositor}", Live, node.Cheap, ""},
	{"gov_tally", gov + "/proposals/{proposal_id}/tally", Live, node.Page, ""},
	{"gov_votes", gov + "/proposals/{proposal_id}/votes", Live, node.Page, "pagination"},
	{"gov_vote", gov + "/proposals/{proposal_id}/votes/{voter}", Live, node.Cheap, ""},
	{"gov_v1beta1_params", govBeta + "/params/{params_type}", Params, node.Cheap, ""},
	{"gov_v1beta1_proposals", govBeta + "/proposals", Live, node.Page, "proposal_status voter depositor pagination"},
	{"gov_v1beta1_proposal", govBeta + "/proposals/{proposal_id}", Live, node.Cheap, ""},
	{"gov_v1beta1_deposits", govBeta + "/proposals/{proposal_id}/deposits", Live, node.Page, "pagination"},
	{"gov_v1beta1_deposit", govBeta + "/proposals/{proposal_id}/deposits/{depositor}", Live, node.Cheap, ""},
	{"gov_v1beta1_tally", govBeta + "/proposals/{proposal_id}/tally", Live, node.Page, ""},
	{"gov_v1beta1_votes", govBeta + "/proposals/{proposal_id}/votes", Live, node.Page, "pagination"},
	{"gov_v1beta1_vote", govBeta + "/proposals/{proposal_id}/votes/{voter}", Live, node.Cheap, ""},
	{"group_groups", group + "/groups", Live, node.Page, "pagination"},
	{"group_info", group + "/group_info/{group_id}", Live, node.Cheap, ""},
	{"group_policy_info", group + "/group_policy_info/{address}", Live, node.Cheap, ""},
	{"group_members", group + "/group_members/{group_id}", Live, node.Page, "pagination"},
	{"group_groups_by_admin", group + "/groups_by_admin/{admin}", Live, node.Page, "pagination"},
	{"group_groups_by_member", group + "/groups_by_member/{address}", Live, node.Page, "pagination"},
	{"group_policies_by_group", group + "/group_policies_by_group/{group_id}", Live, node.Page, "pagination"},
	{"group_policies_by_admin", group + "/group_policies_by_admin/{admin}", Live, node.Page, "pagination"},
	{"group_proposal", group + "/proposal/{proposal_id}", Live, node.Cheap, ""},
	{"group_proposals", group + "/proposals_by_group_policy/{address}", Live, node.Page, "pagination"},
	{"group_tally", group + "/proposals/{proposal_id}/tally", Live, node.Page, ""},
	{"group_vote", group + "/vote_by_proposal_voter/{proposal_id}/{voter}", Live, node.Cheap, ""},
	{"group_votes_by_proposal", group + "/votes_by_proposal/{proposal_id}", Live, node.Page, "pagination"},
	{"group_votes_by_voter", group + "/votes_by_voter/{voter}", Live, node.Page, "pagination"},
	{"mint_params", "/cosmos/mint/v1beta1/params", Params, node.Cheap, ""},
	{"mint_inflation", "/cosmos/mint/v1beta1/inflation", Live, node.Cheap, ""},
	{"mint_annual_provisions", "/cosmos/mint/v1beta1/annual_provisions", Live, node.Cheap, ""},
	{"nft_balance", nft + "/balance/{owner}/{class_id}", Live, node.Cheap, ""},
	{"nft_owner", nft + "/owner/{class_id}/{id}", Live, node.Cheap, ""},
	{"nft_supply", nft + "/supply/{class_id}", Live, node.Cheap, ""},
	{"nft_nfts", nft + "/nfts", Live, node.Page, "class_id owner pagination"},
	{"nft_nft", nft + "/nfts/{class_id}/{id}", Live, node.Cheap, ""},
	{"nft_classes", nft + "/classes", Live, node.Page, "pagination"},
	{"nft_class", nft + "/classes/{class_id}", Live, node.Cheap, ""},
	{"params", "/cosmos/params/v1beta1/params", Params, node.Cheap, "subspace key:text"},
	{"params_subspaces", "/cosmos/params/v1beta1/subspaces", Params, node.Cheap, ""},
	{"protocolpool_community_pool", "/cosmos/protocolpool/v1/community_pool", Live, node.Cheap, ""},
	{"protocolpool_continuous_funds", "/cosmos/protocolpool/v1/continuous_funds", Live, node.Cheap, ""},
	{"protocolpool_continuous_fund", "/cosmos/protocolpool/v1/continuous_funds/{recipient}", Live, node.Cheap, ""},
	{"protocolpool_params", "/cosmos/protocolpool/v1/params", Params, node.Cheap, ""},
	{"slashing_params", slashing + "/params", Params, node.Cheap, ""},
	{"slashing_signing_infos", slashing + "/signing_infos", Live, node.Page, "pagination"},
	{"slashing_signing_info", slashing + "/signing_infos/{cons_address}", Live, node.Cheap, ""},
	{"staking_validators", staking + "/validators", Live, node.Page, "status pagination"},
	{"staking_validator", staking + "/validators/{validator_addr}", Live, node.Cheap, ""},
	{"staking_validator_delegations", staking + "/validators/{validator_addr}/delegations", Live, node.Page, "pagination"},
	{"staking_validator_unbondings", staking + "/validators/{validator_addr}/unbonding_delegations", Live, node.Page, "pagination"},
	{"staking_delegation", staking + "/validators/{validator_addr}/delegations/{delegator_addr}", Live, node.Cheap, ""},
	{"staking_unbonding", staking + "/validators/{validator_addr}/delegations/{delegator_addr}/unbonding_delegation", Live, node.Cheap, ""},
	{"staking_delegations", staking + "/delegations/{delegator_addr}", Live, node.Page, "pagination"},
	{"staking_unbondings", staking + "/delegators/{delegator_addr}/unbonding_delegations", Live, node.Page, "pagination"},
	{"staking_redelegations", staking + "/delegators/{delegator_addr}/redelegations", Live, node.Page, "src_validator_addr dst_validator_addr pagination"},
	{"staking_delegator_validators", staking + "/delegators/{delegator_addr}/validators", Live, node.Page, "pagination"},
	{"staking_delegator_validator", staking + "/delegators/{delegator_addr}/validators/{validator_addr}", Live, node.Cheap, ""},
	{"staking_historical_info", staking + "/historical_info/{height}", Live, node.Page, ""},
	{"staking_pool", staking + "/pool", Live, node.Cheap, ""},
	{"staking_params", staking + "/params", Params, node.Cheap, ""},
	{"upgrade_current_plan", "/cosmos/upgrade/v1beta1/current_plan", Live, node.Cheap, ""},
	{"upgrade_applied_plan", "/cosmos/upgrade/v1beta1/applied_plan/{name}", Live, node.Cheap, ""},
	{"upgrade_consensus_state", "/cosmos/upgrade/v1beta1/upgraded_consensus_state/{last_height}", Live, node.Cheap, ""},
	{"upgrade_module_versions", "/cosmos/upgrade/v1beta1/module_versions", Params, node.Cheap, "module_name"},
	{"upgrade_authority", "/cosmos/upgrade/v1beta1/authority", Params, node.Cheap, ""},

	{"comet_block_latest", comet + "/blocks/latest", Latest, node.Cheap, ""},
	{"comet_block", comet + "/blocks/{height}", Block, node.Cheap, ""},
	{"comet_validators_latest", comet + "/validatorsets/latest", Latest, node.Cheap, "pagination"},
	{"comet_validators", comet + "/validatorsets/{height}", Block, node.Cheap, "pagination"},
	{"comet_abci_query", comet + "/abci_query", Never, node.Page, "data path height prove"},
	{"tx_search", txs + "/txs", Latest, node.Scan, "events query page limit order_by pagination"},
	{"tx_block", txs + "/txs/block/{height}", Block, node.Page, "pagination"},
	{"tx", txs + "/txs/{hash}", Found, node.Cheap, ""},
	{"node_status", "/cosmos/base/{path=**}", Never, node.Cheap, "*"},
	{"tx_other", "/cosmos/tx/{path=**}", Never, node.Cheap, "*"},

	{"ibc_denoms", transfer + "/denoms", Live, node.Page, "pagination"},
	{"ibc_denom", transfer + "/denoms/{hash=**:text}", Live, node.Cheap, ""},
	{"ibc_denom_hash", transfer + "/denom_hashes/{trace=**}", Live, node.Cheap, ""},
	{"ibc_denom_traces", transfer + "/denom_traces", Live, node.Page, "pagination"},
	{"ibc_denom_trace", transfer + "/denom_traces/{hash=**:text}", Live, node.Cheap, ""},
	{"ibc_escrow_address", transfer + "/channels/{channel_id}/ports/{port_id}/escrow_address", Live, node.Cheap, ""},
	{"ibc_total_escrow", transfer + "/total_escrow/{denom=**}", Live, node.Cheap, ""},
	{"ibc_transfer_params", transfer + "/params", Params, node.Cheap, ""},
	{"ibc_ica_host_params", "/ibc/apps/interchain_accounts/host/v1/params", Params, node.Cheap, ""},
	{"ibc_ica_controller_params", "/ibc/apps/interchain_accounts/controller/v1/params", Params, node.Cheap, ""},
	{"ibc_channels", channel + "/channels", Live, node.Page, "pagination"},
	{"ibc_channel", channel + "/channels/{channel_id}/ports/{port_id}", Live, node.Cheap, ""},
	{"ibc_channel_client", channel + "/channels/{channel_id}/ports/{port_id}/client_state", Live, node.Cheap, ""},
	{"ibc_commitments", channel + "/channels/{channel_id}/ports/{port_id}/packet_commitments", Live, node.Page, "pagination"},
	{"ibc_next_sequence", channel + "/channels/{channel_id}/ports/{port_id}/next_sequence", Live, node.Cheap, ""},
	{"ibc_connection_channels", channel + "/connections/{connection}/channels", Live, node.Page, "pagination"},
	{"ibc_client_states", client + "/client_states", Live, node.Page, "pagination"},
	{"ibc_client_state", client + "/client_states/{client_id}", Live, node.Cheap, ""},
	{"ibc_client_status", client + "/client_status/{client_id}", Live, node.Cheap, ""},
	{"ibc_client_params", client + "/params", Params, node.Cheap, ""},
	{"ibc_connections", connects + "/connections", Live, node.Page, "pagination"},
	{"ibc_connection", connects + "/connections/{connection_id}", Live, node.Cheap, ""},
	{"ibc_connection_client", connects + "/connections/{connection_id}/client_state", Live, node.Cheap, ""},

	{"wasm_codes", wasm + "/code", Live, node.Page, "pagination"},
	{"wasm_code", wasm + "/code/{code_id}", Params, node.Page, ""},
	{"wasm_code_info", wasm + "/code-info/{code_id}", Live, node.Cheap, ""},
	{"wasm_code_contracts", wasm + "/code/{code_id}/contracts", Live, node.Page, "pagination"},
	{"wasm_params", wasm + "/codes/params", Params, node.Cheap, ""},
	{"wasm_pinned", wasm + "/codes/pinned", Live, node.Cheap, "pagination"},
	{"wasm_contract", wasm + "/contract/{address}", Live, node.Cheap, ""},
	{"wasm_history", wasm + "/contract/{address}/history", Live, node.Cheap, "pagination"},
	{"wasm_state", wasm + "/contract/{address}/state", Live, node.Page, "pagination"},
	{"wasm_raw", wasm + "/contract/{address}/raw/{query_data=**}", Live, node.Cheap, ""},
	{"wasm_smart", wasm + "/contract/{address}/smart/{query_data=**}", Live, node.Page, ""},
	{"wasm_creator", wasm + "/contracts/creator/{creator_address}", Live, node.Page, "pagination"},

	{"other", "/{path=**}", Live, node.Page, dialect.Anything},
}

// methods are the methods that the table answers.
var methods = []string{http.MethodGet, http.MethodHead}
