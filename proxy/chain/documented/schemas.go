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
	Field{"denom", textSchema, Required},
	Field{"amount", amountSchema, Required},
).named("Coin")

// decCoinSchema is a coin that is not yet whole.
var decCoinSchema = objectOf(
	Field{"denom", textSchema, Required},
	Field{"amount", fractionSchema, Required},
).named("DecCoin")

var paginationSchema = objectOf(
	Field{"total", amountSchema, Required},
).named("Pagination").with(
	Field{"next_key", textSchema, Optional},
)

var validatorSchema = objectOf(
	Field{"operator_address", textSchema, Mandatory},
	Field{"consensus_pubkey", objectOf(
		Field{"type", textSchema, Required},
		Field{"value", textSchema, Required},
	), Required},
	Field{"status", integerSchema, Required},
	Field{"tokens", amountSchema, Required},
	Field{"delegator_shares", decimalSchema, Required},
	Field{"description", objectOf(
		Field{"moniker", textSchema, Required},
	).with(
		Field{"identity", textSchema, Optional},
		Field{"website", textSchema, Optional},
		Field{"security_contact", textSchema, Optional},
		Field{"details", textSchema, Optional},
	), Required},
	Field{"unbonding_time", timeSchema, Required},
	Field{"commission", objectOf(
		Field{"commission_rates", objectOf(
			Field{"rate", decimalSchema, Required},
			Field{"max_rate", decimalSchema, Required},
			Field{"max_change_rate", decimalSchema, Required},
		), Required},
		Field{"update_time", timeSchema, Required},
	), Required},
	Field{"min_self_delegation", amountSchema, Required},
	Field{"support_token_type", integerSchema, Optional}, // absent means locked, and is documented to be absent
	Field{"rewards_tokens", decimalSchema, Required},
	Field{"delegator_rewards_shares", decimalSchema, Required},
).named("Validator").with(
	Field{"jailed", booleanSchema, Optional},
	Field{"unbonding_height", amountSchema, Optional},
	Field{"unbonding_ids", listOf(amountSchema), Optional},
)

var delegationResponseSchema = objectOf(
	Field{"delegation", objectOf(
		Field{"delegator_address", textSchema, Mandatory},
		Field{"validator_address", textSchema, Required},
		Field{"shares", decimalSchema, Required},
		Field{"rewards_shares", decimalSchema, Required},
	), Optional},
	Field{"balance", coinSchema, Optional},
).named("DelegationEntry")

var periodDelegationSchema = objectOf(
	Field{"delegator_address", textSchema, Required},
	Field{"validator_address", textSchema, Required},
	Field{"period_delegation_id", amountSchema, Mandatory},
	Field{"shares", decimalSchema, Required},
	Field{"rewards_shares", decimalSchema, Required},
	Field{"end_time", timeSchema, Required},
	Field{"balance", coinSchema, Optional},
).named("PeriodDelegation").with(
	Field{"period_type", integerSchema, Optional},
)

var rewardSchema = objectOf(
	Field{"validator_address", textSchema, Mandatory},
	Field{"reward", decCoinSchema, Required},
).named("Reward")

// redelegationSchema is what the node's redelegations are. The documented
// interface leaves them open, so they are passed on as they are.
var redelegationSchema = objectOf(
	Field{"redelegation", objectOf(
		Field{"delegator_address", textSchema, Optional},
		Field{"validator_src_address", textSchema, Optional},
		Field{"validator_dst_address", textSchema, Optional},
		Field{"entries", listOrNull(redelegationEntrySchema), Optional},
	), Optional},
	Field{"entries", listOf(objectOf(
		Field{"redelegation_entry", redelegationEntrySchema, Optional},
		Field{"balance", amountSchema, Optional},
	)), Optional},
).named("RedelegationRecord").asSent()

var redelegationEntrySchema = objectOf(
	Field{"creation_height", integerSchema, Optional},
	Field{"completion_time", timeSchema, Optional},
	Field{"initial_balance", amountSchema, Optional},
	Field{"shares_dst", decimalSchema, Optional},
	Field{"unbonding_id", integerSchema, Optional},
	Field{"period_delegation_id", amountSchema, Optional},
).named("RedelegationEntry")

// What msg is on each documented path.
var (
	Validators    = pageOf("validators", validatorSchema)
	Delegations   = pageOf("delegation_responses", delegationResponseSchema)
	Redelegations = pageOf("redelegation_responses", redelegationSchema)
	Validator     = objectOf(Field{"validator", validatorSchema, Mandatory})
	Delegation    = objectOf(Field{"delegation_response", delegationResponseSchema, Mandatory})

	PeriodDelegations = listOf(periodDelegationSchema).editedBy(reshapePeriodDelegations)
	Rewards           = objectOf(Field{"rewards", listOf(rewardSchema), Required}).
				with(Field{"total", listOrNull(decCoinSchema), Optional}).editedBy(reshapeRewards)

	StakingParams = paramsOf("StakingParams",
		Field{"unbonding_time", amountSchema, Required},
		Field{"max_validators", integerSchema, Required},
		Field{"max_entries", integerSchema, Required},
		Field{"historical_entries", integerSchema, Required},
		Field{"bond_denom", textSchema, Required},
		Field{"min_commission_rate", decimalSchema, Required},
		Field{"min_delegation", amountSchema, Required},
		Field{"periods", listOf(objectOf(
			Field{"period_type", integerSchema, Optional}, // documented to be absent from the first
			Field{"duration", amountSchema, Required},
			Field{"rewards_multiplier", decimalSchema, Required},
		)), Required},
		Field{"token_types", listOf(objectOf(
			Field{"token_type", integerSchema, Optional}, // documented to be absent from the first
			Field{"rewards_multiplier", decimalSchema, Required},
		)), Required},
		Field{"singularity_height", amountSchema, Required},
	)
	DistributionParams = paramsOf("DistributionParams",
		Field{"ubi", decimalSchema, Required},
		Field{"base_proposer_reward", decimalSchema, Required},
		Field{"bonus_proposer_reward", decimalSchema, Required},
		Field{"withdraw_addr_enabled", booleanSchema, Required},
		Field{"max_ubi", decimalSchema, Required},
	)
	AuthParams = paramsOf("AuthParams",
		Field{"max_memo_characters", amountSchema, Required},
		Field{"tx_sig_limit", amountSchema, Required},
		Field{"tx_size_cost_per_byte", amountSchema, Required},
		Field{"sig_verify_cost_ed25519", amountSchema, Required},
		Field{"sig_verify_cost_secp256k1", amountSchema, Required},
	)
)

// pageOf is a list under its name, with its pagination.
func pageOf(name string, items *Schema) *Schema {
	return objectOf(
		Field{name, listOf(items), Required},
		Field{"pagination", paginationSchema, Required},
	)
}

func paramsOf(title string, members ...Field) *Schema {
	return objectOf(Field{"params", objectOf(members...).named(title), Mandatory})
}
