package documented

// Patterns of the strings that are numbers.
const (
	AmountPattern   = `^-?[0-9]+$`
	DecimalPattern  = `^-?[0-9]+\.[0-9]{18}$`
	FractionPattern = `^-?[0-9]+(\.[0-9]{1,18})?$`
)

// The scalars of the documented interface, with what stands for absent ones.
// Numbers that matter are strings: no reader may round them.
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
	Field{"amount", amountSchema, Required, "How much, in its smallest unit."},
).named("Coin", "An amount of a denomination.")

// decCoinSchema is a coin that is not yet whole.
var decCoinSchema = objectOf(
	Field{"denom", textSchema, Required, "The denomination."},
	Field{"amount", fractionSchema, Required, "How much, in its smallest unit and fractions of it."},
).named("DecCoin", "An amount of a denomination that need not be whole.")

var paginationSchema = objectOf(
	Field{"total", amountSchema, Required, "How many items there are on all pages; `0` where they were not counted."},
	Field{"next_key", textSchema, Extra, "The `pagination.key` of the next page, which is read at the block of this one. Absent on the last page."},
).named("Pagination", "Where the list goes on.")

var validatorSchema = objectOf(
	Field{"operator_address", textSchema, Mandatory, "Address of the validator."},
	Field{"consensus_pubkey", objectOf(
		Field{"type", textSchema, Required, "The kind of key."},
		Field{"value", textSchema, Required, "The key, in base64."},
	), Required, "The key it signs blocks with."},
	Field{"status", integerSchema, Required, "1 unbonded, 2 unbonding, 3 bonded."},
	Field{"tokens", amountSchema, Required, "Tokens delegated to it."},
	Field{"delegator_shares", decimalSchema, Required, "Shares given for them."},
	Field{"description", objectOf(
		Field{"moniker", textSchema, Required, "Its name."},
		Field{"identity", textSchema, Extra, "Its identity elsewhere, such as a Keybase fingerprint."},
		Field{"website", textSchema, Extra, "Its website."},
		Field{"security_contact", textSchema, Extra, "Where to report a problem to."},
		Field{"details", textSchema, Extra, "Anything else."},
	), Required, "What it says of itself."},
	Field{"unbonding_time", timeSchema, Required, "When it will have unbonded."},
	Field{"commission", objectOf(
		Field{"commission_rates", objectOf(
			Field{"rate", decimalSchema, Required, "The rate at present."},
			Field{"max_rate", decimalSchema, Required, "The rate it will never exceed."},
			Field{"max_change_rate", decimalSchema, Required, "The most the rate changes in a day."},
		), Required, "The rates."},
		Field{"update_time", timeSchema, Required, "When the rate last changed."},
	), Required, "Its part of the rewards of its delegators."},
	Field{"min_self_delegation", amountSchema, Required, "What it must at least have delegated to itself."},
	Field{"support_token_type", integerSchema, Optional, "The tokens it accepts: 1 unlocked. Absent, or 0: locked."},
	Field{"rewards_tokens", decimalSchema, Required, "Tokens delegated to it, weighed for rewards."},
	Field{"delegator_rewards_shares", decimalSchema, Required, "Shares given for them, weighed for rewards."},
	Field{"jailed", booleanSchema, Extra, "Whether it is barred from validating. Absent: no."},
	Field{"unbonding_height", amountSchema, Extra, "The block at which it began to unbond. Absent: never."},
	Field{"unbonding_ids", listOf(amountSchema), Extra, "Ids of what is unbonding from it."},
).named("Validator", "A validator.")

var delegationResponseSchema = objectOf(
	Field{"delegation", objectOf(
		Field{"delegator_address", textSchema, Mandatory, "Address of the delegator."},
		Field{"validator_address", textSchema, Required, "Address of the validator."},
		Field{"shares", decimalSchema, Required, "The share in the validator's tokens."},
		Field{"rewards_shares", decimalSchema, Required, "The share in the validator's rewards."},
	), Optional, "The delegation."},
	Field{"balance", coinSchema, Optional, "What it is worth now."},
).named("DelegationEntry", "A delegation and what it is worth.")

var periodDelegationSchema = objectOf(
	Field{"delegator_address", textSchema, Required, "Address of the delegator."},
	Field{"validator_address", textSchema, Required, "Address of the validator."},
	Field{"period_delegation_id", amountSchema, Mandatory, "Id of the period delegation; `0` is not bound."},
	Field{"shares", decimalSchema, Required, "The share in the validator's tokens."},
	Field{"rewards_shares", decimalSchema, Required, "The share in the validator's rewards."},
	Field{"end_time", timeSchema, Required, "When the period ends."},
	Field{"balance", coinSchema, Optional, "What it is worth now."},
	Field{"period_type", integerSchema, Extra, "The period, one of the staking parameters. Absent, or 0: not bound."},
).named("PeriodDelegation", "A part of a delegation, bound for a period.")

var rewardSchema = objectOf(
	Field{"validator_address", textSchema, Mandatory, "Address of the validator, as bech32."},
	Field{"reward", decCoinSchema, Required, "What was earned. The denomination is empty where there was nothing."},
).named("Reward", "What a delegation has earned, in one denomination.")

// redelegationSchema is what the node's redelegations are. The documented
// interface leaves them open, so they are passed on as they are.
var redelegationSchema = objectOf(
	Field{"redelegation", objectOf(
		Field{"delegator_address", textSchema, Optional, "Address of the delegator."},
		Field{"validator_src_address", textSchema, Optional, "Address of the validator it has left."},
		Field{"validator_dst_address", textSchema, Optional, "Address of the validator it has gone to."},
		Field{"entries", listOrNull(redelegationEntrySchema), Optional, "Null. The entries are next to it."},
	), Optional, "From where to where."},
	Field{"entries", listOf(objectOf(
		Field{"redelegation_entry", redelegationEntrySchema, Optional, "When and how much."},
		Field{"balance", amountSchema, Optional, "What it is worth now."},
	)), Optional, "Its parts."},
).named("RedelegationRecord", "Stake that moves from one validator to another, as the node shows it.").asSent()

var redelegationEntrySchema = objectOf(
	Field{"creation_height", integerSchema, Optional, "The block it began at."},
	Field{"completion_time", timeSchema, Optional, "When it is settled."},
	Field{"initial_balance", amountSchema, Optional, "Tokens at the beginning."},
	Field{"shares_dst", decimalSchema, Optional, "Shares given for them."},
	Field{"unbonding_id", integerSchema, Optional, "Its id among what is unbonding."},
	Field{"period_delegation_id", amountSchema, Optional, "Id of the period delegation; `0` is not bound."},
).named("RedelegationEntry", "A part of it.")

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
		Field{"total", listOrNull(decCoinSchema), Required, "The sums of all rewards, by denomination. Null where there are delegations but no rewards."},
	).editedBy(reshapeRewards)

	StakingParams = paramsOf("StakingParams", "What governs staking.",
		Field{"unbonding_time", amountSchema, Required, "Nanoseconds until stake that leaves is paid out."},
		Field{"max_validators", integerSchema, Required, "Validators there can be."},
		Field{"max_entries", integerSchema, Required, "Parts of stake that can leave one validator at a time, for one delegator."},
		Field{"historical_entries", integerSchema, Required, "Blocks whose validators are remembered."},
		Field{"bond_denom", textSchema, Required, "The denomination that is staked."},
		Field{"min_commission_rate", decimalSchema, Required, "The least a validator must take."},
		Field{"min_delegation", amountSchema, Required, "The least that can be delegated."},
		Field{"periods", listOf(objectOf(
			Field{"period_type", integerSchema, Optional, "The period. Absent from the first, which is 0: not bound."},
			Field{"duration", amountSchema, Required, "Nanoseconds."},
			Field{"rewards_multiplier", decimalSchema, Required, "What it multiplies the share in rewards by."},
		)), Required, "Periods that stake can be bound for."},
		Field{"token_types", listOf(objectOf(
			Field{"token_type", integerSchema, Optional, "The kind. Absent from the first, which is 0: locked."},
			Field{"rewards_multiplier", decimalSchema, Required, "What it multiplies the share in rewards by."},
		)), Required, "Kinds of tokens."},
		Field{"singularity_height", amountSchema, Required, "The block from which on there are rewards."},
	)
	DistributionParams = paramsOf("DistributionParams", "What governs the distribution of rewards.",
		Field{"ubi", decimalSchema, Required, "Part of the inflation that is set aside for everybody."},
		Field{"base_proposer_reward", decimalSchema, Required, "Part of a block's fees for its proposer."},
		Field{"bonus_proposer_reward", decimalSchema, Required, "Part of a block's fees for a proposer that includes all votes."},
		Field{"withdraw_addr_enabled", booleanSchema, Required, "Whether rewards can be sent to another address."},
		Field{"max_ubi", decimalSchema, Required, "The most that part can be."},
	)
	AuthParams = paramsOf("AuthParams", "What governs transactions.",
		Field{"max_memo_characters", amountSchema, Required, "Characters in a transaction's memo."},
		Field{"tx_sig_limit", amountSchema, Required, "Signatures on a transaction."},
		Field{"tx_size_cost_per_byte", amountSchema, Required, "Gas for a byte of a transaction."},
		Field{"sig_verify_cost_ed25519", amountSchema, Required, "Gas for an Ed25519 signature."},
		Field{"sig_verify_cost_secp256k1", amountSchema, Required, "Gas for a secp256k1 signature."},
	)
)

// pageOf is a list under its name, with its pagination.
func pageOf(name string, items *Schema, doc string) *Schema {
	return objectOf(
		Field{name, listOf(items), Required, doc},
		Field{"pagination", paginationSchema, Required, "Where the list goes on."},
	)
}

func paramsOf(title, doc string, members ...Field) *Schema {
	return objectOf(Field{"params", objectOf(members...).named(title, doc), Mandatory, "The parameters."})
}
