package cosmos

import (
	"fmt"
	"slices"
)

// delegationJSON renders a delegation with its balance.
func (s state) delegationJSON(k *stake) string {
	tokens := s.tokens(k)
	return fmt.Sprintf(`{"delegation":{"delegator_address":%q,"validator_address":%q,"shares":"%d.000000000000000000"},"balance":%s}`,
		accountText(k.who.raw), k.to.Operator, tokens, coinJSON("stake", tokens))
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
