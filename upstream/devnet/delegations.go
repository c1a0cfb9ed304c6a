package devnet

import (
	"fmt"
	"strconv"
)

// denom is the name of the token.
const denom = "stake"

// refusal is a text of the node that some handlers wrap and others do not.
type refusal string

func (r refusal) Error() string { return string(r) }

// rpc is the refusal as a query service of the chain wraps it.
func (r refusal) rpc() error { return fmt.Errorf("rpc error: code = Internal desc = %s", string(r)) }

const (
	errNoTuple     refusal = "no delegation for (address, validator) tuple"
	errNoValidator refusal = "validator does not exist"
	errNoPeriod    refusal = "period delegation does not exist"
)

// appendDelegation appends a delegation with what it is worth.
func (s state) appendDelegation(b []byte, v *validator, k *stake) []byte {
	added := s.added(v, k)
	b = append(b, `{"delegation":{"delegator_address":"`...)
	b = k.delegator.appendTo(b)
	b = append(b, `","validator_address":"`...)
	b = v.operator.appendTo(b)
	b = append(b, `","shares":"`...)
	b = decimal{whole: k.tokens + added}.appendTo(b)
	b = append(b, `","rewards_shares":"`...)
	b = k.rewardsShares(v, added).appendTo(b)
	b = append(b, `"},"balance":`...)
	return append(appendCoin(b, v.worth(k.tokens+added)), '}')
}

func appendCoin(b []byte, amount uint64) []byte {
	b = append(b, `{"denom":"`+denom+`","amount":"`...)
	return append(strconv.AppendUint(b, amount, 10), `"}`...)
}

// validatorDelegations answers with the delegations to a validator. Its page
// keys are addresses without the length that other lists put before them.
func validatorDelegations(q *query) error {
	raw, err := q.operator(0)
	if err != nil {
		return err
	}
	var stakes []stake
	v := q.lookup(raw)
	if v != nil {
		stakes = v.stakes
	}
	page, err := paginate(q.request.Pagination, stakes, func(k stake) []byte { return k.delegator[:] }, nil)
	if err != nil {
		return err
	}
	q.list(`{"delegation_responses":`, len(page.items), "[]", func(i int) { q.out = q.appendDelegation(q.out, v, &page.items[i]) })
	q.pagination(page.next, page.total)
	return nil
}

// delegationCount answers with how many delegations a validator has.
func delegationCount(q *query) error {
	raw, err := q.operator(0)
	if err != nil {
		return err
	}
	count := 0
	if v := q.lookup(raw); v != nil {
		count = len(v.stakes)
	}
	q.textf(`{"total":"%d"}`, count)
	return nil
}

// delegatorCount answers with how many accounts delegate.
func delegatorCount(q *query) error {
	q.textf(`{"total":"%d"}`, len(q.accounts))
	return nil
}

// delegatorDelegations answers with the delegations of a delegator.
func delegatorDelegations(q *query) error {
	return q.delegatorPage(`{"delegation_responses":`, "[]", func(v *validator, k *stake) {
		q.out = q.appendDelegation(q.out, v, k)
	})
}

// delegatorPage answers with a page over the validators of a delegator.
func (q *query) delegatorPage(open, none string, item func(*validator, *stake)) error {
	raw, err := q.delegator(0)
	if err != nil {
		return err
	}
	page, err := paginate(q.request.Pagination, q.delegations(raw), operatorKey, nil)
	if err != nil {
		return err
	}
	q.list(open, len(page.items), none, func(i int) { item(page.items[i], page.items[i].find(raw)) })
	q.pagination(page.next, page.total)
	return nil
}

// delegationSingle answers with the delegation of a pair.
func delegationSingle(q *query) error {
	p, err := q.pair(1, 0)
	if err != nil {
		return err
	}
	if p.stake == nil {
		return fmt.Errorf("rpc error: code = NotFound desc = delegation with delegator %s not found for validator %s",
			bech32Text(accountPrefix, p.delegator), bech32Text(validatorPrefix, p.operator))
	}
	q.text(`{"delegation_response":`)
	q.out = q.appendDelegation(q.out, p.validator, p.stake)
	q.text("}")
	return nil
}

// stakedTokens answers with what a delegator has at each validator.
func stakedTokens(q *query) error {
	return q.delegatorPage(`{"delegation_staked_token":`, "null", func(v *validator, k *stake) {
		q.textf(`{"validator_operator_address":%q,"staked_token":"%s"}`, v.operator, q.stakedToken(v, k))
	})
}

// rewardsTokens answers with the weights of a delegator at each validator.
func rewardsTokens(q *query) error {
	return q.delegatorPage(`{"delegation_rewards_token":`, "null", func(v *validator, k *stake) {
		q.textf(`{"validator_operator_address":%q,"rewards_token":"%s"}`, v.operator, q.rewardsToken(v, k))
	})
}

func (s state) stakedToken(v *validator, k *stake) decimal {
	return decimal{whole: v.worth(k.tokens + s.added(v, k))}
}

func (s state) rewardsToken(v *validator, k *stake) decimal {
	return k.rewardsShares(v, s.added(v, k)).slashed(v.slash)
}

// totalStakedTokens and totalRewardsTokens answer with the sums over all
// validators of a delegator.
func totalStakedTokens(q *query) error  { return q.delegatorSum("staked_token", q.stakedToken) }
func totalRewardsTokens(q *query) error { return q.delegatorSum("rewards_token", q.rewardsToken) }

func (q *query) delegatorSum(name string, of func(*validator, *stake) decimal) error {
	raw, err := q.delegator(0)
	if err != nil {
		return err
	}
	var sum decimal
	for _, v := range q.delegations(raw) {
		sum = sum.add(of(v, v.find(raw)))
	}
	q.textf(`{"%s":"%s"}`, name, sum)
	return nil
}

// totalStaked answers with what all validators have.
func totalStaked(q *query) error {
	notBonded, inBond := q.pool()
	q.textf(`{"total_staked_token":"%d"}`, notBonded-q.unbondings.total+inBond)
	return nil
}

// stakingPool answers with what is bonded and what is not.
func stakingPool(q *query) error {
	notBonded, inBond := q.pool()
	q.textf(`{"pool":{"not_bonded_tokens":"%d","bonded_tokens":"%d"}}`, notBonded, inBond)
	return nil
}
