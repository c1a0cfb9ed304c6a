package cosmos

import (
	"fmt"
	"slices"
)

// delegationJSON renders a delegation with its balance.
func (s state) delegationJSON(k *stake) string {
	tokens := s.tokens(k)
	return fmt.Sprintf(`{"delegation":{"delegator_address":%q,"validator_address":%q,"shares":"%d.000000000000000000"},"balance":%s}`,
		accountText(k.who.raw), k.to.operator, tokens, coinJSON("stake", tokens))
}

// stakes are the delegations of the delegator in the path.
func (q *query) stakes() []*stake {
	if a := q.byAddress[q.delegator]; a != nil {
		return q.present(a.stakes)
	}
	return nil
}

// stake is the delegation of the delegator at the validator; nil for none.
func (q *query) stake() *stake {
	stakes := q.stakes()
	if i := slices.IndexFunc(stakes, func(k *stake) bool { return k.to.raw == q.operator }); i >= 0 {
		return stakes[i]
	}
	return nil
}

// delegations lists those of an account.
func delegations(q *query) (string, error) {
	return list(q, "delegation_responses", q.stakes(), func(k *stake) string { return k.to.pageKey() }, q.delegationJSON)
}

// validatorDelegations lists those at a validator.
func validatorDelegations(q *query) (string, error) {
	var stakes []*stake
	if v := q.member(q.operator); v != nil {
		stakes = q.present(v.stakes)
	}
	return list(q, "delegation_responses", stakes, func(k *stake) string { return k.who.raw }, q.delegationJSON)
}

func delegationOf(q *query) (string, error) {
	k := q.stake()
	if k == nil {
		return "", fail(notFound, "delegation with delegator %s not found for validator %s", q.args["delegator_addr"], q.args["validator_addr"])
	}
	return fmt.Sprintf(`{"delegation_response":%s}`, q.delegationJSON(k)), nil
}

// An unbonding lasts so many blocks. The wide delegator begins one as often.
const unbondingBlocks = 150

// unbondingJSON renders the unbonding of the wide delegator.
func (s state) unbondingJSON(v *validator) string {
	began := s.height - s.height%unbondingBlocks
	return fmt.Sprintf(`{"delegator_address":%q,"validator_address":%q,"entries":[{"creation_height":"%d","completion_time":%q,"initial_balance":"45","balance":"45","unbonding_id":"%d","unbonding_on_hold_ref_count":"0"}]}`,
		WideDelegator, v.operator, began, nominalTime(began+unbondingBlocks), 100+began/unbondingBlocks)
}

// unbondings are the validators that an account is taking its stake from: one or none.
func (s state) unbondings(raw string, v *validator) []*validator {
	if s.height > opening && v != nil && raw == mustDecode(accountPrefix, WideDelegator) && v.operator == members[0].operator {
		return []*validator{v}
	}
	return nil
}

func delegatorUnbondings(q *query) (string, error) {
	return list(q, "unbonding_responses", q.unbondings(q.delegator, q.operated(members[0].operator)), (*validator).pageKey, q.unbondingJSON)
}

func validatorUnbondings(q *query) (string, error) {
	return list(q, "unbonding_responses", q.unbondings(mustDecode(accountPrefix, WideDelegator), q.member(q.operator)), (*validator).pageKey, q.unbondingJSON)
}

func unbondingOf(q *query) (string, error) {
	v := q.member(q.operator)
	if q.unbondings(q.delegator, v) == nil {
		return "", fail(notFound, "unbonding delegation with delegator %s not found for validator %s", q.args["delegator_addr"], q.args["validator_addr"])
	}
	return fmt.Sprintf(`{"unbond":%s}`, q.unbondingJSON(v)), nil
}

func redelegations(q *query) (string, error) {
	var sources []*validator
	if q.height > opening && q.delegator == mustDecode(accountPrefix, redelegator) {
		sources = []*validator{q.operated(second)}
	}
	began := q.height - q.height%unbondingBlocks
	return list(q, "redelegation_responses", sources, (*validator).pageKey, func(*validator) string {
		return fmt.Sprintf(`{"redelegation":{"delegator_address":%q,"validator_src_address":%q,"validator_dst_address":%q,"entries":null},"entries":[{"redelegation_entry":{"creation_height":%d,"completion_time":%q,"initial_balance":"30","shares_dst":"30.000000000000000000","unbonding_id":%d},"balance":"30"}]}`,
			redelegator, second, members[4].operator, began, nominalTime(began+unbondingBlocks), 200+began/unbondingBlocks)
	})
}
