package proxy

// The scalars of the documented interface, with what stands for absent ones.
var (
	textForm     = &form{kind: textKind, zero: `""`}
	amountForm   = &form{kind: textKind, zero: `"0"`}
	decimalForm  = &form{kind: textKind, zero: `"0.000000000000000000"`}
	fractionForm = &form{kind: textKind, zero: `"0"`}
	timeForm     = &form{kind: textKind, zero: `"1970-01-01T00:00:00Z"`}
	integerForm  = &form{kind: integerKind, zero: `0`}
	booleanForm  = &form{kind: booleanKind, zero: `false`}
)

var coinForm = objectOf(
	field{"denom", textForm, required},
	field{"amount", amountForm, required},
)

// decCoinForm is a coin that is not yet whole.
var decCoinForm = objectOf(
	field{"denom", textForm, required},
	field{"amount", fractionForm, required},
)

var paginationForm = objectOf(
	field{"total", amountForm, required},
)

var validatorForm = objectOf(
	field{"operator_address", textForm, required},
	field{"consensus_pubkey", objectOf(
		field{"type", textForm, required},
		field{"value", textForm, required},
	), required},
	field{"status", integerForm, required},
	field{"tokens", amountForm, required},
	field{"delegator_shares", decimalForm, required},
	field{"description", objectOf(
		field{"moniker", textForm, required},
	), required},
	field{"unbonding_time", timeForm, required},
	field{"commission", objectOf(
		field{"commission_rates", objectOf(
			field{"rate", decimalForm, required},
			field{"max_rate", decimalForm, required},
			field{"max_change_rate", decimalForm, required},
		), required},
		field{"update_time", timeForm, required},
	), required},
	field{"min_self_delegation", amountForm, required},
	field{"support_token_type", integerForm, optional}, // absent means locked, and is documented to be absent
	field{"rewards_tokens", decimalForm, required},
	field{"delegator_rewards_shares", decimalForm, required},
)

var delegationResponseForm = objectOf(
	field{"delegation", objectOf(
		field{"delegator_address", textForm, required},
		field{"validator_address", textForm, required},
		field{"shares", decimalForm, required},
		field{"rewards_shares", decimalForm, required},
	), optional},
	field{"balance", coinForm, optional},
)

var periodDelegationForm = objectOf(
	field{"delegator_address", textForm, required},
	field{"validator_address", textForm, required},
	field{"period_delegation_id", amountForm, required},
	field{"shares", decimalForm, required},
	field{"rewards_shares", decimalForm, required},
	field{"end_time", timeForm, required},
	field{"balance", coinForm, optional},
)

var rewardForm = objectOf(
	field{"validator_address", textForm, required},
	field{"reward", decCoinForm, required},
)

// What msg is on each documented path.
var (
	validatorsMsg    = pageOf("validators", validatorForm)
	delegationsMsg   = pageOf("delegation_responses", delegationResponseForm)
	redelegationsMsg = pageOf("redelegation_responses", nil)
	validatorMsg     = objectOf(field{"validator", validatorForm, essential})
	delegationMsg    = objectOf(field{"delegation_response", delegationResponseForm, essential})

	periodDelegationsMsg = listOf(periodDelegationForm).editedBy(reshapePeriodDelegations)
	rewardsMsg           = objectOf(field{"rewards", listOf(rewardForm), required}).editedBy(reshapeRewards)

	stakingParamsMsg = paramsOf(
		field{"unbonding_time", amountForm, required},
		field{"max_validators", integerForm, required},
		field{"max_entries", integerForm, required},
		field{"historical_entries", integerForm, required},
		field{"bond_denom", textForm, required},
		field{"min_commission_rate", decimalForm, required},
		field{"min_delegation", amountForm, required},
		field{"periods", listOf(objectOf(
			field{"period_type", integerForm, optional}, // documented to be absent from the first
			field{"duration", amountForm, required},
			field{"rewards_multiplier", decimalForm, required},
		)), required},
		field{"token_types", listOf(objectOf(
			field{"token_type", integerForm, optional}, // documented to be absent from the first
			field{"rewards_multiplier", decimalForm, required},
		)), required},
		field{"singularity_height", amountForm, required},
	)
	distributionParamsMsg = paramsOf(
		field{"ubi", decimalForm, required},
		field{"base_proposer_reward", decimalForm, required},
		field{"bonus_proposer_reward", decimalForm, required},
		field{"withdraw_addr_enabled", booleanForm, required},
		field{"max_ubi", decimalForm, required},
	)
	authParamsMsg = paramsOf(
		field{"max_memo_characters", amountForm, required},
		field{"tx_sig_limit", amountForm, required},
		field{"tx_size_cost_per_byte", amountForm, required},
		field{"sig_verify_cost_ed25519", amountForm, required},
		field{"sig_verify_cost_secp256k1", amountForm, required},
	)
)

// pageOf is a list under its name, with its pagination.
func pageOf(name string, items *form) *form {
	return objectOf(
		field{name, listOf(items), required},
		field{"pagination", paginationForm, required},
	)
}

// editedBy says that a msg needs more than filling in to have the form.
func (f *form) editedBy(edit reshape) *form {
	f.edit = edit
	return f
}

func paramsOf(members ...field) *form {
	return objectOf(field{"params", objectOf(members...), essential})
}
