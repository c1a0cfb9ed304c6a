package documented

// Patterns of the strings that are numbers.
const (
	AmountPattern   = `^-?[0-9]+$`
	DecimalPattern  = `^-?[0-9]+\.[0-9]{18}$`
	FractionPattern = `^-?[0-9]+(\.[0-9]{1,18})?$`
)

// Scalars of the documented API, with the values that replace absent members. Most numbers are strings, so that no reader
// rounds them.
var (
	textSchema     = &Schema{Kind: StringKind, zero: `""`}
	amountSchema   = &Schema{Kind: StringKind, zero: `"0"`, Pattern: AmountPattern}
	decimalSchema  = &Schema{Kind: StringKind, zero: `"0.000000000000000000"`, Pattern: DecimalPattern}
	fractionSchema = &Schema{Kind: StringKind, zero: `"0"`, Pattern: FractionPattern}
	timeSchema     = &Schema{Kind: StringKind, zero: `"1970-01-01T00:00:00Z"`, Format: "date-time"}
	integerSchema  = &Schema{Kind: IntegerKind, zero: `0`, Format: "int32"}
	booleanSchema  = &Schema{Kind: BooleanKind, zero: `false`}
)

var coinSchema = objectOf(
	Field{"denom", textSchema, Required, "The denomination."},
	Field{"amount", amountSchema, Required, "Amount in the smallest unit."},
).named("Coin", "An amount of a denomination.")

// decCoinSchema is a coin whose amount may have decimals.
var decCoinSchema = objectOf(
	Field{"denom", textSchema, Required, "The denomination."},
	Field{"amount", fractionSchema, Required, "Amount in the smallest unit, with decimals."},
).named("DecCoin", "A decimal amount of a denomination.")

var paginationSchema = objectOf(
	Field{"total", amountSchema, Required, "Number of items on all pages; `0` if they were not counted."},
	Field{"next_key", textSchema, Extra, "The `pagination.key` of the next page, which is read at the block of this one. Absent on the last page."},
).named("Pagination", "The next page, and the number of items.")

var validatorSchema = objectOf(
	Field{"operator_address", textSchema, Mandatory, "Address of the validator."},
	Field{"consensus_pubkey", objectOf(
		Field{"type", textSchema, Required, "Type of the key."},
		Field{"value", textSchema, Required, "The key, in base64."},
	), Required, "Key with which the validator signs blocks."},
	Field{"status", integerSchema, Required, "1 unbonded, 2 unbonding, 3 bonded."},
	Field{"tokens", amountSchema, Required, "Tokens delegated to the validator."},
	Field{"delegator_shares", decimalSchema, Required, "Shares issued for these tokens."},
	Field{"description", objectOf(
		Field{"moniker", textSchema, Required, "Name of the validator."},
		Field{"identity", textSchema, Extra, "External identity, such as a Keybase fingerprint."},
		Field{"website", textSchema, Extra, "Website of the validator."},
		Field{"security_contact", textSchema, Extra, "Contact for security reports."},
		Field{"details", textSchema, Extra, "Other details."},
	), Required, "Description by the operator."},
	Field{"unbonding_time", timeSchema, Required, "Time at which unbonding ends."},
	Field{"commission", objectOf(
		Field{"commission_rates", objectOf(
			Field{"rate", decimalSchema, Required, "Current rate."},
			Field{"max_rate", decimalSchema, Required, "Maximum rate."},
			Field{"max_change_rate", decimalSchema, Required, "Maximum change of the rate per day."},
		), Required, "The rates."},
		Field{"update_time", timeSchema, Required, "Time of the last change of the rate."},
	), Required, "Commission on the rewards of the delegators."},
	Field{"min_self_delegation", amountSchema, Required, "Minimum self-delegation."},
	Field{"support_token_type", integerSchema, Optional, "Type of the tokens that the validator accepts: 1 for unlocked, 0 or absent for locked."},
	Field{"rewards_tokens", decimalSchema, Required, "Delegated tokens, weighted for rewards."},
	Field{"delegator_rewards_shares", decimalSchema, Required, "Shares, weighted for rewards."},
	Field{"jailed", booleanSchema, Extra, "Whether the validator is jailed. Absent means false."},
	Field{"unbonding_height", amountSchema, Extra, "Block at which the validator began to unbond. Absent if it never did."},
	Field{"unbonding_ids", listOf(amountSchema), Extra, "Ids of the unbonding operations."},
).named("Validator", "A validator of the chain.")

var delegationResponseSchema = objectOf(
	Field{"delegation", objectOf(
		Field{"delegator_address", textSchema, Mandatory, "Address of the delegator."},
		Field{"validator_address", textSchema, Required, "Address of the validator."},
		Field{"shares", decimalSchema, Required, "Share of the validator's tokens."},
		Field{"rewards_shares", decimalSchema, Required, "Share of the validator's rewards."},
	), Optional, "The delegation."},
	Field{"balance", coinSchema, Optional, "Current value."},
).named("DelegationEntry", "A delegation and its current value.")

var periodDelegationSchema = objectOf(
	Field{"delegator_address", textSchema, Required, "Address of the delegator."},
	Field{"validator_address", textSchema, Required, "Address of the validator."},
	Field{"period_delegation_id", amountSchema, Mandatory, "Id of the period delegation; `0` for stake without a period."},
	Field{"shares", decimalSchema, Required, "Share of the validator's tokens."},
	Field{"rewards_shares", decimalSchema, Required, "Share of the validator's rewards."},
	Field{"end_time", timeSchema, Required, "Time at which the period ends."},
	Field{"balance", coinSchema, Optional, "Current value."},
	Field{"period_type", integerSchema, Extra, "Period type of the staking parameters; 0 or absent for stake without a period."},
).named("PeriodDelegation", "Part of a delegation that is staked for a period.")

var rewardSchema = objectOf(
	Field{"validator_address", textSchema, Mandatory, "Address of the validator, as bech32."},
	Field{"reward", decCoinSchema, Required, "Earned amount. The denomination is empty if nothing was earned."},
).named("Reward", "Rewards of a delegation in one denomination.")

// redelegationSchema describes the node's redelegations. The documented API does not define them, so they are passed on
// unchanged, even null.
var redelegationSchema = (&Schema{Kind: ObjectKind, zero: "null", Members: []Field{
	{"redelegation", objectOf(
		Field{"delegator_address", textSchema, Optional, "Address of the delegator."},
		Field{"validator_src_address", textSchema, Optional, "Address of the source validator."},
		Field{"validator_dst_address", textSchema, Optional, "Address of the destination validator."},
		Field{"entries", listOrNull(redelegationEntrySchema), Optional, "Always null. The entries are in `entries` of the record."},
	), Extra, "Source and destination."},
	{"entries", listOf(objectOf(
		Field{"redelegation_entry", redelegationEntrySchema, Optional, "Time and amount."},
		Field{"balance", amountSchema, Optional, "Current value."},
	)), Extra, "Entries of the redelegation."},
}}).named("RedelegationRecord", "Stake that moves from one validator to another, as the node shows it.")

var redelegationEntrySchema = objectOf(
	Field{"creation_height", integerSchema, Optional, "Block at which the redelegation began."},
	Field{"completion_time", timeSchema, Optional, "Time at which the redelegation completes."},
	Field{"initial_balance", amountSchema, Optional, "Initial number of tokens."},
	Field{"shares_dst", decimalSchema, Optional, "Shares issued for these tokens."},
	Field{"unbonding_id", integerSchema, Optional, "Id of the unbonding operation."},
	Field{"period_delegation_id", amountSchema, Optional, "Id of the period delegation; `0` for stake without a period."},
).named("RedelegationEntry", "An entry of a redelegation.")

// What msg is on each documented path.
var (
	Validators    = pageOf("validators", validatorSchema, "The validators.")
	Delegations   = pageOf("delegation_responses", delegationResponseSchema, "The delegations.")
	Redelegations = pageOf("redelegation_responses", redelegationSchema, "The redelegations.")
	Validator     = objectOf(Field{"validator", validatorSchema, Mandatory, "The validator."})
	Delegation    = objectOf(Field{"delegation_response", delegationResponseSchema, Mandatory, "The delegation."})

	PeriodDelegations = listOf(periodDelegationSchema).editedBy(reshapePeriodDelegations)
	Rewards           = objectOf(
		Field{"rewards", listOf(rewardSchema), Required, "The rewards."},
		Field{"total", listOrNull(decCoinSchema), Required, "Sums of all rewards by denomination. Null if there are delegations but no rewards."},
	).editedBy(reshapeRewards)

	StakingParams = paramsOf("StakingParams", "Staking parameters.",
		Field{"unbonding_time", amountSchema, Required, "Unbonding period in nanoseconds."},
		Field{"max_validators", integerSchema, Required, "Maximum number of validators."},
		Field{"max_entries", integerSchema, Required, "Maximum number of concurrent unbonding entries per delegator and validator."},
		Field{"historical_entries", integerSchema, Required, "Number of blocks whose validators are kept."},
		Field{"bond_denom", textSchema, Required, "Staking denomination."},
		Field{"min_commission_rate", decimalSchema, Required, "Minimum commission rate."},
		Field{"min_delegation", amountSchema, Required, "Minimum delegation."},
		Field{"periods", listOf(objectOf(
			Field{"period_type", integerSchema, Optional, "Period type. Absent for type 0, which has no period."},
			Field{"duration", amountSchema, Required, "Duration in nanoseconds."},
			Field{"rewards_multiplier", decimalSchema, Required, "Factor for the share of rewards."},
		)), Required, "Available staking periods."},
		Field{"token_types", listOf(objectOf(
			Field{"token_type", integerSchema, Optional, "Token type. Absent for type 0, which is locked."},
			Field{"rewards_multiplier", decimalSchema, Required, "Factor for the share of rewards."},
		)), Required, "Types of tokens."},
		Field{"singularity_height", amountSchema, Required, "First block for which there are rewards."},
	)
	DistributionParams = paramsOf("DistributionParams", "Distribution parameters.",
		Field{"ubi", decimalSchema, Required, "Share of inflation that is set aside as UBI."},
		Field{"base_proposer_reward", decimalSchema, Required, "Share of a block's fees for its proposer."},
		Field{"bonus_proposer_reward", decimalSchema, Required, "Additional share for a proposer that includes all votes."},
		Field{"withdraw_addr_enabled", booleanSchema, Required, "Whether rewards can be sent to another address."},
		Field{"max_ubi", decimalSchema, Required, "Maximum UBI share."},
	)
	AuthParams = paramsOf("AuthParams", "Transaction parameters.",
		Field{"max_memo_characters", amountSchema, Required, "Maximum number of characters in a memo."},
		Field{"tx_sig_limit", amountSchema, Required, "Maximum number of signatures on a transaction."},
		Field{"tx_size_cost_per_byte", amountSchema, Required, "Gas per byte of a transaction."},
		Field{"sig_verify_cost_ed25519", amountSchema, Required, "Gas for an Ed25519 signature."},
		Field{"sig_verify_cost_secp256k1", amountSchema, Required, "Gas for a secp256k1 signature."},
	)
)

// pageOf is a list under its name, with its pagination.
func pageOf(name string, items *Schema, doc string) *Schema {
	return objectOf(
		Field{name, listOf(items), Required, doc},
		Field{"pagination", paginationSchema, Required, "The next page, and the number of items."},
	)
}

func paramsOf(title, doc string, members ...Field) *Schema {
	return objectOf(Field{"params", objectOf(members...).named(title, doc), Mandatory, "The parameters."})
}

// unsignedSchema is an unsigned 32-bit number.
var unsignedSchema = &Schema{Kind: IntegerKind, zero: `0`, Format: "uint32"}

// dkgNetworkSchema is a round of key generation. Members that a round does not have yet are absent.
var dkgNetworkSchema = objectOf(
	Field{"round", unsignedSchema, Required, "Number of the round."},
	Field{"stage", integerSchema, Required, "1 registration, 2 dealing, 3 finalization, 4 active, 5 failed."},
	Field{"total", unsignedSchema, Required, "Number of validators in the committee."},
	Field{"threshold", unsignedSchema, Required, "Number of partial decryptions that a complete one needs."},
	Field{"is_resharing", booleanSchema, Required, "Whether the previous committee passes its key to this one."},
	Field{"start_block_height", amountSchema, Extra, "The block at which the round began."},
	Field{"start_block_hash", textSchema, Extra, "The hash of that block, in base64."},
	Field{"active_val_set", listOf(textSchema), Extra, "Addresses of the validators of the committee."},
	Field{"global_public_key", textSchema, Extra, "The public key of the committee, in base64."},
	Field{"public_coeffs", listOf(textSchema), Extra, "Coefficients of the public polynomial, in base64."},
	Field{"is_upgrade", booleanSchema, Extra, "Whether the committee changes to another enclave in this round. Absent means false."},
).named("DKGNetwork", "A round of distributed key generation.")

var dkgRegistrationSchema = objectOf(
	Field{"round", unsignedSchema, Required, "Number of the round."},
	Field{"validator_addr", textSchema, Mandatory, "Address of the validator."},
	Field{"index", unsignedSchema, Required, "Index in the committee."},
	Field{"dkg_pub_key", textSchema, Required, "The validator's key for dealing, in base64."},
	Field{"comm_pub_key", textSchema, Required, "Key with which the validator signs partial decryptions, in base64."},
	Field{"enclave_report", textSchema, Required, "Attestation of the enclave, in base64."},
	Field{"status", integerSchema, Required, "1 verified, 2 finalized, 3 invalidated."},
	Field{"code_commitment", textSchema, Required, "Measurement of the enclave's code, in base64."},
	Field{"enclave_type", textSchema, Required, "Type of the enclave, in base64."},
	Field{"pub_key_share", textSchema, Extra, "The validator's share of the public key, in base64. Absent until the registration is finalized."},
).named("DKGRegistration", "A validator that takes part in a round of distributed key generation.")

var cdrPartialSchema = objectOf(
	Field{"validator", textSchema, Required, "Address of the validator."},
	Field{"round", unsignedSchema, Required, "Number of the round."},
	Field{"pid", unsignedSchema, Required, "Index in the committee."},
	Field{"encrypted_partial", textSchema, Required, "The partial decryption, encrypted for the requester, in base64."},
	Field{"ephemeral_pub_key", textSchema, Required, "Ephemeral key of the encryption, in base64."},
	Field{"pub_share", textSchema, Required, "The validator's share of the public key, in base64."},
	Field{"label", textSchema, Required, "The number of the vault as 32 bytes, in base64."},
	Field{"ciphertext", textSchema, Required, "The ciphertext, in base64."},
).named("CDRPartial", "A partial decryption by one validator.")

// What msg is on the paths of /dkg.
var (
	DKGNetwork       = objectOf(Field{"network", dkgNetworkSchema, Mandatory, "The round."})
	DKGPublicKey     = objectOf(Field{"public_key", textSchema, Mandatory, "The key, in hex without `0x`."})
	DKGRegistrations = objectOf(Field{"registrations", listOf(dkgRegistrationSchema), Required, "The registrations."})
	CDRPartials      = objectOf(Field{"submissions", listOf(objectOf(
		Field{"round", unsignedSchema, Required, "Number of the round."},
		Field{"submissions", listOf(cdrPartialSchema), Required, "The partial decryptions."},
		Field{"ciphertext", textSchema, Required, "The ciphertext, in base64."},
		Field{"threshold", unsignedSchema, Required, "Number of partial decryptions that a complete one needs."},
		Field{"threshold_met", booleanSchema, Required, "Whether the threshold is met."},
	).named("CDRPartials", "The partial decryptions of one ciphertext in one round.")), Required, "The groups."})
)
