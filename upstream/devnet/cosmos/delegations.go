package cosmos

import (
	"fmt"
)

// delegationJSON renders a delegation with its balance.
func (s state) delegationJSON(k *stake) string {
	tokens := s.tokens(k)
	return fmt.Sprintf(`{"delegation":{"delegator_address":%q,"validator_address":%q,"shares":"%d.000000000000000000"},"balance":%s}`,
		accountText(k.who.raw), k.to.operator, tokens, coinJSON("stake", tokens))
}

// delegations lists those of an account.
func delegations(q *query) ([]byte, error) {
	raw, err := q.account("delegator_addr")
	if err != nil {
		return nil, err
	}
	stakes := q.stakesOf(raw)
	return q.page.render(listing{
		name: "delegation_responses", size: len(stakes),
		key:  func(i int) string { return prefixed(stakes[i].to.raw) },
		item: func(i int) string { return q.delegationJSON(stakes[i]) },
	})
}

// validatorDelegations lists those at a validator.
func validatorDelegations(q *query) ([]byte, error) {
	raw, err := q.operator("validator_addr")
	if err != nil {
		return nil, err
	}
	var stakes []*stake
	if v := q.member(raw); v != nil {
		stakes = q.present(v.stakes)
	}
	return q.page.render(listing{
		name: "delegation_responses", size: len(stakes),
		key:  func(i int) string { return stakes[i].who.raw },
		item: func(i int) string { return q.delegationJSON(stakes[i]) },
	})
}

func delegationOf(q *query) ([]byte, error) {
	k, err := q.pair()
	if err != nil {
		return nil, err
	}
	if k == nil {
		return nil, fail(notFound, "delegation with delegator %s not found for validator %s", q.args["delegator_addr"], q.args["validator_addr"])
	}
	return fmt.Appendf(nil, `{"delegation_response":%s}`, q.delegationJSON(k)), nil
}

// An unbonding lasts so many blocks. The wide delegator begins one as often.
const unbondingBlocks = 150

// unbondingJSON renders the unbonding of the wide delegator.
func (s state) unbondingJSON(v *validator) string {
	began := s.height - s.height%unbondingBlocks
	return fmt.Sprintf(`{"delegator_address":%q,"validator_address":%q,"entries":[{"creation_height":"%d","completion_time":%q,"initial_balance":"45","balance":"45","unbonding_id":"%d","unbonding_on_hold_ref_count":"0"}]}`,
		WideDelegator, v.operator, began, nominalTime(began+unbondingBlocks), 100+began/unbondingBlocks)
}

// unbondingAt says whether an account is taking its stake from a validator.
func (s state) unbondingAt(raw string, v *validator) bool {
	return s.height > opening && v != nil && raw == mustDecode(accountPrefix, WideDelegator) && v.operator == members[0].operator
}

func delegatorUnbondings(q *query) ([]byte, error) {
	raw, err := q.account("delegator_addr")
	if err != nil {
		return nil, err
	}
	return unbondings(q, raw, q.operated(members[0].operator))
}

func validatorUnbondings(q *query) ([]byte, error) {
	raw, err := q.operator("validator_addr")
	if err != nil {
		return nil, err
	}
	return unbondings(q, mustDecode(accountPrefix, WideDelegator), q.member(raw))
}

// unbondings lists the one there may be.
func unbondings(q *query, delegator string, v *validator) ([]byte, error) {
	size := 0
	if q.unbondingAt(delegator, v) {
		size = 1
	}
	return q.page.render(listing{
		name: "unbonding_responses", size: size,
		key:  func(int) string { return prefixed(v.raw) },
		item: func(int) string { return q.unbondingJSON(v) },
	})
}

func unbondingOf(q *query) ([]byte, error) {
	delegator, err := q.account("delegator_addr")
	if err != nil {
		return nil, err
	}
	operator, err := q.operator("validator_addr")
	if err != nil {
		return nil, err
	}
	v := q.member(operator)
	if !q.unbondingAt(delegator, v) {
		return nil, fail(notFound, "unbonding delegation with delegator %s not found for validator %s", q.args["delegator_addr"], q.args["validator_addr"])
	}
	return fmt.Appendf(nil, `{"unbond":%s}`, q.unbondingJSON(v)), nil
}

func redelegations(q *query) ([]byte, error) {
	raw, err := q.account("delegator_addr")
	if err != nil {
		return nil, err
	}
	size := 0
	if q.height > opening && raw == mustDecode(accountPrefix, redelegator) {
		size = 1
	}
	began := q.height - q.height%unbondingBlocks
	return q.page.render(listing{
		name: "redelegation_responses", size: size,
		key: func(int) string { return prefixed(q.operated(second).raw) },
		item: func(int) string {
			return fmt.Sprintf(`{"redelegation":{"delegator_address":%q,"validator_src_address":%q,"validator_dst_address":%q,"entries":null},"entries":[{"redelegation_entry":{"creation_height":%d,"completion_time":%q,"initial_balance":"30","shares_dst":"30.000000000000000000","unbonding_id":%d},"balance":"30"}]}`,
				redelegator, second, members[4].operator, began, nominalTime(began+unbondingBlocks), 200+began/unbondingBlocks)
		},
	})
}
