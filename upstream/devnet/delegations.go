package devnet

import (
	"errors"
	"fmt"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// denom is the name of the token.
const denom = "stake"

// What some handlers say as it is, and others as an error of a query service.
var (
	errNoTuple     = errors.New("no delegation for (address, validator) tuple")
	errNoValidator = errors.New("validator does not exist")
	errNoPeriod    = errors.New("period delegation does not exist")
)

// internal is an error as a query service of the chain wraps it.
func internal(err error) error { return fmt.Errorf("rpc error: code = Internal desc = %w", err) }

// noneFor is the error where the delegator and the validator of the path have
// nothing of a kind.
func (q *query) noneFor(what string) error {
	return fmt.Errorf("rpc error: code = NotFound desc = %s with delegator %s not found for validator %s",
		what, cosmos.Bech32(accountPrefix, q.delegator), cosmos.Bech32(validatorPrefix, q.operator))
}

// delegation appends a delegation with what it is worth.
func (q *query) delegation(v *validator, k *stake) {
	added := q.added(v, k)
	q.text(`{"delegation":{"delegator_address":"`, k.delegator, `","validator_address":"`, v.Operator, `","shares":"`, decimal{whole: k.tokens + added},
		`","rewards_shares":"`, k.rewardsShares(v, added), `"},"balance":{"denom":"stake","amount":"`, v.worth(k.tokens+added), `"}}`)
}

// validatorDelegations answers with the delegations to a validator. Its page
// keys are addresses without the length that other lists put before them.
func validatorDelegations(q *query) error {
	return listPage(q, "delegation_responses", "[]", q.stakes(), func(k stake) string { return string(k.delegator[:]) }, nil,
		func(k stake) { q.delegation(q.validator, &k) })
}

// stakes are those at the validator of the path.
func (q *query) stakes() []stake {
	if q.validator == nil {
		return nil
	}
	return q.validator.stakes
}

// delegationCount answers with how many delegations a validator has.
func delegationCount(q *query) error {
	q.textf(`{"total":"%d"}`, len(q.stakes()))
	return nil
}

// delegatorCount answers with how many accounts delegate.
func delegatorCount(q *query) error {
	q.textf(`{"total":"%d"}`, len(q.accounts))
	return nil
}

// delegatorDelegations answers with the delegations of a delegator.
func delegatorDelegations(q *query) error {
	return q.delegatorPage("delegation_responses", "[]", q.delegation)
}

// delegatorPage answers with a page over the validators of a delegator.
func (q *query) delegatorPage(name, none string, item func(*validator, *stake)) error {
	return listPage(q, name, none, q.accounts[string(q.delegator)], (*validator).key, nil,
		func(v *validator) { item(v, v.find(q.delegator)) })
}

// delegationSingle answers with the delegation of a pair.
func delegationSingle(q *query) error {
	if q.stake == nil {
		return q.noneFor("delegation")
	}
	return q.object("delegation_response", func() { q.delegation(q.validator, q.stake) })
}

func (s state) stakedToken(v *validator, k *stake) decimal {
	return decimal{whole: v.worth(k.tokens + s.added(v, k))}
}

func (s state) rewardsToken(v *validator, k *stake) decimal {
	return k.rewardsShares(v, s.added(v, k)).slashed(v.Slash)
}

// delegatorTokens answers with what a delegator has of some kind at each validator.
func delegatorTokens(name string, of func(state, *validator, *stake) decimal) func(*query) error {
	return func(q *query) error {
		return q.delegatorPage("delegation_"+name, "null", func(v *validator, k *stake) {
			q.textf(`{"validator_operator_address":"%s","%s":"%s"}`, v.Operator, name, of(q.state, v, k))
		})
	}
}

// delegatorSum answers with what a delegator has of it at all validators.
func delegatorSum(name string, of func(state, *validator, *stake) decimal) func(*query) error {
	return func(q *query) error {
		var sum decimal
		for _, v := range q.accounts[string(q.delegator)] {
			sum = sum.add(of(q.state, v, v.find(q.delegator)))
		}
		q.textf(`{"%s":"%s"}`, name, sum)
		return nil
	}
}

// totalStaked answers with what all validators have.
func totalStaked(q *query) error {
	notBonded, inBond := q.pool()
	q.textf(`{"total_staked_token":"%d"}`, notBonded+inBond)
	return nil
}

// stakingPool answers with what is bonded and what is not.
func stakingPool(q *query) error {
	notBonded, inBond := q.pool()
	q.textf(`{"pool":{"not_bonded_tokens":"%d","bonded_tokens":"%d"}}`, notBonded, inBond)
	return nil
}
