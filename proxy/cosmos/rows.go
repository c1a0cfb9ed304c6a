package cosmos

import (
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

// transferQuery is a service whose name differs from its paths.
const transferQuery = "/ibc.applications.transfer.v1.Query/"

var row = dialect.NewRow

// table has the rows of the SDK's own modules, of ibc and of wasm, and at the end the generic one. The first row that matches a path
// serves it. Queries have proto names, optionally with :kind. Each ends with the gRPC method that returns the same: a method of the
// service Query of the path's module, or SERVICE/NAME of another service of that module.
var table = []dialect.Row{
	row("auth_accounts", auth+"/accounts", Live, node.Page, "pagination", "Accounts"),
	row("auth_account", auth+"/accounts/{address}", Live, node.Cheap, "", "Account"),
	row("auth_account_info", auth+"/account_info/{address}", Live, node.Cheap, "", "AccountInfo"),
	row("auth_address_by_id", auth+"/address_by_id/{id:uint64}", Live, node.Cheap, "account_id", "AccountAddressByID"),
	row("auth_module_accounts", auth+"/module_accounts", Live, node.Cheap, "", "ModuleAccounts"),
	row("auth_module_account", auth+"/module_accounts/{name}", Live, node.Cheap, "", "ModuleAccountByName"),
	row("auth_bech32", auth+"/bech32", Params, node.Cheap, "", "Bech32Prefix"),
	row("auth_bech32_of_bytes", auth+"/bech32/{address_bytes}", Params, node.Cheap, "", "AddressBytesToString"),
	row("auth_params", auth+"/params", Params, node.Cheap, "", "Params"),
	row("authz_grants", authz+"/grants", Live, node.Cheap, "granter grantee msg_type_url pagination", "Grants"),
	row("authz_granter", authz+"/grants/granter/{granter}", Live, node.Page, "pagination", "GranterGrants"),
	row("authz_grantee", authz+"/grants/grantee/{grantee}", Live, node.Page, "pagination", "GranteeGrants"),
	row("bank_balances", bank+"/balances/{address}", Live, node.Cheap, "resolve_denom pagination", "AllBalances"),
	row("bank_balance", bank+"/balances/{address}/by_denom", Live, node.Cheap, "denom", "Balance"),
	row("bank_spendable", bank+"/spendable_balances/{address}", Live, node.Cheap, "pagination", "SpendableBalances"),
	row("bank_spendable_by_denom", bank+"/spendable_balances/{address}/by_denom", Live, node.Cheap, "denom", "SpendableBalanceByDenom"),
	row("bank_supply", bank+"/supply", Live, node.Page, "pagination", "TotalSupply"),
	row("bank_supply_by_denom", bank+"/supply/by_denom", Live, node.Cheap, "denom", "SupplyOf"),
	row("bank_params", bank+"/params", Params, node.Cheap, "", "Params"),
	row("bank_send_enabled", bank+"/send_enabled", Params, node.Cheap, "denoms pagination", "SendEnabled"),
	row("bank_denoms_metadata", bank+"/denoms_metadata", Live, node.Page, "pagination", "DenomsMetadata"),
	row("bank_denom_metadata_by_query", bank+"/denoms_metadata_by_query_string", Live, node.Cheap, "denom", "DenomMetadataByQueryString"),
	row("bank_denom_metadata", bank+"/denoms_metadata/{denom=**}", Live, node.Cheap, "", "DenomMetadata"),
	row("bank_denom_owners_by_query", bank+"/denom_owners_by_query", Live, node.Page, "denom pagination", "DenomOwnersByQuery"),
	row("bank_denom_owners", bank+"/denom_owners/{denom=**}", Live, node.Page, "pagination", "DenomOwners"),
	row("circuit_accounts", "/cosmos/circuit/v1/accounts", Live, node.Cheap, "pagination", "Accounts"),
	row("circuit_account", "/cosmos/circuit/v1/accounts/{address}", Live, node.Cheap, "", "Account"),
	row("circuit_disabled", "/cosmos/circuit/v1/disable_list", Live, node.Cheap, "", "DisabledList"),
	row("consensus_params", "/cosmos/consensus/v1/params", Params, node.Cheap, "", "Params"),
	row("distribution_params", distr+"/params", Params, node.Cheap, "", "Params"),
	row("distribution_validator", distr+"/validators/{validator_address}", Live, node.Cheap, "", "ValidatorDistributionInfo"),
	row("distribution_commission", distr+"/validators/{validator_address}/commission", Live, node.Cheap, "", "ValidatorCommission"),
	row("distribution_outstanding", distr+"/validators/{validator_address}/outstanding_rewards", Live, node.Cheap, "", "ValidatorOutstandingRewards"),
	row("distribution_slashes", distr+"/validators/{validator_address}/slashes", Live, node.Page, "starting_height ending_height pagination", "ValidatorSlashes"),
	row("distribution_rewards", distr+"/delegators/{delegator_address}/rewards", Live, node.Page, "", "DelegationTotalRewards"),
	row("distribution_rewards_at", distr+"/delegators/{delegator_address}/rewards/{validator_address}", Live, node.Cheap, "", "DelegationRewards"),
	row("distribution_validators", distr+"/delegators/{delegator_address}/validators", Live, node.Page, "", "DelegatorValidators"),
	row("distribution_withdraw_address", distr+"/delegators/{delegator_address}/withdraw_address", Live, node.Cheap, "", "DelegatorWithdrawAddress"),
	row("distribution_community_pool", distr+"/community_pool", Live, node.Cheap, "", "CommunityPool"),
	row("epochs", "/cosmos/epochs/v1beta1/epochs", Live, node.Cheap, "", "EpochInfos"),
	row("epochs_current", "/cosmos/epochs/v1beta1/current_epoch", Live, node.Cheap, "identifier", "CurrentEpoch"),
	row("evidence_list", "/cosmos/evidence/v1beta1/evidence", Live, node.Page, "pagination", "AllEvidence"),
	row("evidence", "/cosmos/evidence/v1beta1/evidence/{hash:text}", Live, node.Cheap, "evidence_hash:bytes", "Evidence"),
	row("feegrant_allowance", feegrant+"/allowance/{granter}/{grantee}", Live, node.Cheap, "", "Allowance"),
	row("feegrant_allowances", feegrant+"/allowances/{grantee}", Live, node.Page, "pagination", "Allowances"),
	row("feegrant_issued", feegrant+"/issued/{granter}", Live, node.Page, "pagination", "AllowancesByGranter"),
	row("gov_constitution", gov+"/constitution", Params, node.Cheap, "", "Constitution"),
	row("gov_params", gov+"/params/{params_type}", Params, node.Cheap, "", "Params"),
	row("gov_proposals", gov+"/proposals", Live, node.Page, "proposal_status voter depositor pagination", "Proposals"),
	row("gov_proposal", gov+"/proposals/{proposal_id}", Live, node.Cheap, "", "Proposal"),
	row("gov_deposits", gov+"/proposals/{proposal_id}/deposits", Live, node.Page, "pagination", "Deposits"),
	row("gov_deposit", gov+"/proposals/{proposal_id}/deposits/{depositor}", Live, node.Cheap, "", "Deposit"),
	row("gov_tally", gov+"/proposals/{proposal_id}/tally", Live, node.Page, "", "TallyResult"),
	row("gov_votes", gov+"/proposals/{proposal_id}/votes", Live, node.Page, "pagination", "Votes"),
	row("gov_vote", gov+"/proposals/{proposal_id}/votes/{voter}", Live, node.Cheap, "", "Vote"),
	row("gov_v1beta1_params", govBeta+"/params/{params_type}", Params, node.Cheap, "", "Params"),
	row("gov_v1beta1_proposals", govBeta+"/proposals", Live, node.Page, "proposal_status voter depositor pagination", "Proposals"),
	row("gov_v1beta1_proposal", govBeta+"/proposals/{proposal_id}", Live, node.Cheap, "", "Proposal"),
	row("gov_v1beta1_deposits", govBeta+"/proposals/{proposal_id}/deposits", Live, node.Page, "pagination", "Deposits"),
	row("gov_v1beta1_deposit", govBeta+"/proposals/{proposal_id}/deposits/{depositor}", Live, node.Cheap, "", "Deposit"),
	row("gov_v1beta1_tally", govBeta+"/proposals/{proposal_id}/tally", Live, node.Page, "", "TallyResult"),
	row("gov_v1beta1_votes", govBeta+"/proposals/{proposal_id}/votes", Live, node.Page, "pagination", "Votes"),
	row("gov_v1beta1_vote", govBeta+"/proposals/{proposal_id}/votes/{voter}", Live, node.Cheap, "", "Vote"),
	row("group_groups", group+"/groups", Live, node.Page, "pagination", "Groups"),
	row("group_info", group+"/group_info/{group_id}", Live, node.Cheap, "", "GroupInfo"),
	row("group_policy_info", group+"/group_policy_info/{address}", Live, node.Cheap, "", "GroupPolicyInfo"),
	row("group_members", group+"/group_members/{group_id}", Live, node.Page, "pagination", "GroupMembers"),
	row("group_groups_by_admin", group+"/groups_by_admin/{admin}", Live, node.Page, "pagination", "GroupsByAdmin"),
	row("group_groups_by_member", group+"/groups_by_member/{address}", Live, node.Page, "pagination", "GroupsByMember"),
	row("group_policies_by_group", group+"/group_policies_by_group/{group_id}", Live, node.Page, "pagination", "GroupPoliciesByGroup"),
	row("group_policies_by_admin", group+"/group_policies_by_admin/{admin}", Live, node.Page, "pagination", "GroupPoliciesByAdmin"),
	row("group_proposal", group+"/proposal/{proposal_id}", Live, node.Cheap, "", "Proposal"),
	row("group_proposals", group+"/proposals_by_group_policy/{address}", Live, node.Page, "pagination", "ProposalsByGroupPolicy"),
	row("group_tally", group+"/proposals/{proposal_id}/tally", Live, node.Page, "", "TallyResult"),
	row("group_vote", group+"/vote_by_proposal_voter/{proposal_id}/{voter}", Live, node.Cheap, "", "VoteByProposalVoter"),
	row("group_votes_by_proposal", group+"/votes_by_proposal/{proposal_id}", Live, node.Page, "pagination", "VotesByProposal"),
	row("group_votes_by_voter", group+"/votes_by_voter/{voter}", Live, node.Page, "pagination", "VotesByVoter"),
	row("mint_params", "/cosmos/mint/v1beta1/params", Params, node.Cheap, "", "Params"),
	row("mint_inflation", "/cosmos/mint/v1beta1/inflation", Live, node.Cheap, "", "Inflation"),
	row("mint_annual_provisions", "/cosmos/mint/v1beta1/annual_provisions", Live, node.Cheap, "", "AnnualProvisions"),
	row("nft_balance", nft+"/balance/{owner}/{class_id}", Live, node.Cheap, "", "Balance"),
	row("nft_owner", nft+"/owner/{class_id}/{id}", Live, node.Cheap, "", "Owner"),
	row("nft_supply", nft+"/supply/{class_id}", Live, node.Cheap, "", "Supply"),
	row("nft_nfts", nft+"/nfts", Live, node.Page, "class_id owner pagination", "NFTs"),
	row("nft_nft", nft+"/nfts/{class_id}/{id}", Live, node.Cheap, "", "NFT"),
	row("nft_classes", nft+"/classes", Live, node.Page, "pagination", "Classes"),
	row("nft_class", nft+"/classes/{class_id}", Live, node.Cheap, "", "Class"),
	row("params", "/cosmos/params/v1beta1/params", Params, node.Cheap, "subspace key:text", "Params"),
	row("params_subspaces", "/cosmos/params/v1beta1/subspaces", Params, node.Cheap, "", "Subspaces"),
	row("protocolpool_community_pool", "/cosmos/protocolpool/v1/community_pool", Live, node.Cheap, "", "CommunityPool"),
	row("protocolpool_continuous_funds", "/cosmos/protocolpool/v1/continuous_funds", Live, node.Cheap, "", "ContinuousFunds"),
	row("protocolpool_continuous_fund", "/cosmos/protocolpool/v1/continuous_funds/{recipient}", Live, node.Cheap, "", "ContinuousFund"),
	row("protocolpool_params", "/cosmos/protocolpool/v1/params", Params, node.Cheap, "", "Params"),
	row("slashing_params", slashing+"/params", Params, node.Cheap, "", "Params"),
	row("slashing_signing_infos", slashing+"/signing_infos", Live, node.Page, "pagination", "SigningInfos"),
	row("slashing_signing_info", slashing+"/signing_infos/{cons_address}", Live, node.Cheap, "", "SigningInfo"),
	row("staking_validators", staking+"/validators", Live, node.Page, "status pagination", "Validators"),
	row("staking_validator", staking+"/validators/{validator_addr}", Live, node.Cheap, "", "Validator"),
	row("staking_validator_delegations", staking+"/validators/{validator_addr}/delegations", Live, node.Page, "pagination", "ValidatorDelegations"),
	row("staking_validator_unbondings", staking+"/validators/{validator_addr}/unbonding_delegations", Live, node.Page, "pagination", "ValidatorUnbondingDelegations"),
	row("staking_delegation", staking+"/validators/{validator_addr}/delegations/{delegator_addr}", Live, node.Cheap, "", "Delegation"),
	row("staking_unbonding", staking+"/validators/{validator_addr}/delegations/{delegator_addr}/unbonding_delegation", Live, node.Cheap, "", "UnbondingDelegation"),
	row("staking_delegations", staking+"/delegations/{delegator_addr}", Live, node.Page, "pagination", "DelegatorDelegations"),
	row("staking_unbondings", staking+"/delegators/{delegator_addr}/unbonding_delegations", Live, node.Page, "pagination", "DelegatorUnbondingDelegations"),
	row("staking_redelegations", staking+"/delegators/{delegator_addr}/redelegations", Live, node.Page, "src_validator_addr dst_validator_addr pagination", "Redelegations"),
	row("staking_delegator_validators", staking+"/delegators/{delegator_addr}/validators", Live, node.Page, "pagination", "DelegatorValidators"),
	row("staking_delegator_validator", staking+"/delegators/{delegator_addr}/validators/{validator_addr}", Live, node.Cheap, "", "DelegatorValidator"),
	row("staking_historical_info", staking+"/historical_info/{height}", Live, node.Page, "", "HistoricalInfo"),
	row("staking_pool", staking+"/pool", Live, node.Cheap, "", "Pool"),
	row("staking_params", staking+"/params", Params, node.Cheap, "", "Params"),
	row("upgrade_current_plan", "/cosmos/upgrade/v1beta1/current_plan", Live, node.Cheap, "", "CurrentPlan"),
	row("upgrade_applied_plan", "/cosmos/upgrade/v1beta1/applied_plan/{name}", Live, node.Cheap, "", "AppliedPlan"),
	row("upgrade_consensus_state", "/cosmos/upgrade/v1beta1/upgraded_consensus_state/{last_height}", Live, node.Cheap, "", "UpgradedConsensusState"),
	row("upgrade_module_versions", "/cosmos/upgrade/v1beta1/module_versions", Params, node.Cheap, "module_name", "ModuleVersions"),
	row("upgrade_authority", "/cosmos/upgrade/v1beta1/authority", Params, node.Cheap, "", "Authority"),

	row("comet_block_latest", comet+"/blocks/latest", Latest, node.Cheap, "", "Service/GetLatestBlock"),
	row("comet_block", comet+"/blocks/{height}", Block, node.Cheap, "", "Service/GetBlockByHeight"),
	row("comet_block_results", comet+"/block_results/{height}", Block, node.Page, "", "Service/GetBlockResults"),
	row("comet_validators_latest", comet+"/validatorsets/latest", Latest, node.Page, "pagination", "Service/GetLatestValidatorSet"),
	row("comet_validators", comet+"/validatorsets/{height}", Block, node.Page, "pagination", "Service/GetValidatorSetByHeight"),
	row("comet_abci_query", comet+"/abci_query", Never, node.Page, "data path height prove", "Service/ABCIQuery"),
	row("tx_search", txs+"/txs", Latest, node.Scan, "events query page limit order_by pagination", "Service/GetTxsEvent"),
	row("tx_block", txs+"/txs/block/{height}", Block, node.Page, "pagination", "Service/GetBlockWithTxs"),
	row("tx", txs+"/txs/{hash}", Found, node.Cheap, "", "Service/GetTx"),
	row("node_status", "/cosmos/base/{path=**}", Never, node.Cheap, "*", ""),
	row("tx_other", "/cosmos/tx/{path=**}", Never, node.Cheap, "*", ""),

	row("ibc_denoms", transfer+"/denoms", Live, node.Page, "pagination", transferQuery+"Denoms"),
	row("ibc_denom", transfer+"/denoms/{hash=**:text}", Live, node.Cheap, "", transferQuery+"Denom"),
	row("ibc_denom_hash", transfer+"/denom_hashes/{trace=**}", Live, node.Cheap, "", transferQuery+"DenomHash"),
	row("ibc_denom_traces", transfer+"/denom_traces", Live, node.Page, "pagination", transferQuery+"DenomTraces"),
	row("ibc_denom_trace", transfer+"/denom_traces/{hash=**:text}", Live, node.Cheap, "", transferQuery+"DenomTrace"),
	row("ibc_escrow_address", transfer+"/channels/{channel_id}/ports/{port_id}/escrow_address", Live, node.Cheap, "", transferQuery+"EscrowAddress"),
	row("ibc_total_escrow", transfer+"/total_escrow/{denom=**}", Live, node.Cheap, "", transferQuery+"TotalEscrowForDenom"),
	row("ibc_transfer_params", transfer+"/params", Params, node.Cheap, "", transferQuery+"Params"),
	row("ibc_ica_host_params", "/ibc/apps/interchain_accounts/host/v1/params", Params, node.Cheap, "", "/ibc.applications.interchain_accounts.host.v1.Query/Params"),
	row("ibc_ica_controller_params", "/ibc/apps/interchain_accounts/controller/v1/params", Params, node.Cheap, "", "/ibc.applications.interchain_accounts.controller.v1.Query/Params"),
	row("ibc_channels", channel+"/channels", Live, node.Page, "pagination", "Channels"),
	row("ibc_channel", channel+"/channels/{channel_id}/ports/{port_id}", Live, node.Cheap, "", "Channel"),
	row("ibc_channel_client", channel+"/channels/{channel_id}/ports/{port_id}/client_state", Live, node.Cheap, "", "ChannelClientState"),
	row("ibc_commitments", channel+"/channels/{channel_id}/ports/{port_id}/packet_commitments", Live, node.Page, "pagination", "PacketCommitments"),
	row("ibc_next_sequence", channel+"/channels/{channel_id}/ports/{port_id}/next_sequence", Live, node.Cheap, "", "NextSequenceReceive"),
	row("ibc_connection_channels", channel+"/connections/{connection}/channels", Live, node.Page, "pagination", "ConnectionChannels"),
	row("ibc_client_states", client+"/client_states", Live, node.Page, "pagination", "ClientStates"),
	row("ibc_client_state", client+"/client_states/{client_id}", Live, node.Cheap, "", "ClientState"),
	row("ibc_client_status", client+"/client_status/{client_id}", Live, node.Cheap, "", "ClientStatus"),
	row("ibc_client_params", client+"/params", Params, node.Cheap, "", "ClientParams"),
	row("ibc_connections", connects+"/connections", Live, node.Page, "pagination", "Connections"),
	row("ibc_connection", connects+"/connections/{connection_id}", Live, node.Cheap, "", "Connection"),
	row("ibc_connection_client", connects+"/connections/{connection_id}/client_state", Live, node.Cheap, "", "ConnectionClientState"),

	row("wasm_codes", wasm+"/code", Live, node.Page, "pagination", "Codes"),
	row("wasm_code", wasm+"/code/{code_id}", Params, node.Page, "", "Code"),
	row("wasm_code_info", wasm+"/code-info/{code_id}", Live, node.Cheap, "", "CodeInfo"),
	row("wasm_code_contracts", wasm+"/code/{code_id}/contracts", Live, node.Page, "pagination", "ContractsByCode"),
	row("wasm_params", wasm+"/codes/params", Params, node.Cheap, "", "Params"),
	row("wasm_pinned", wasm+"/codes/pinned", Live, node.Cheap, "pagination", "PinnedCodes"),
	row("wasm_contract", wasm+"/contract/{address}", Live, node.Cheap, "", "ContractInfo"),
	row("wasm_history", wasm+"/contract/{address}/history", Live, node.Cheap, "pagination", "ContractHistory"),
	row("wasm_state", wasm+"/contract/{address}/state", Live, node.Page, "pagination", "AllContractState"),
	row("wasm_raw", wasm+"/contract/{address}/raw/{query_data=**}", Live, node.Cheap, "", "RawContractState"),
	row("wasm_smart", wasm+"/contract/{address}/smart/{query_data=**}", Live, node.Page, "", "SmartContractState"),
	row("wasm_creator", wasm+"/contracts/creator/{creator_address}", Live, node.Page, "pagination", "ContractsByCreator"),

	row(dialect.Other, "/{path=**}", Live, node.Page, dialect.Anything, ""),
}
