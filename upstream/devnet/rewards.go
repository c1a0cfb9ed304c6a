package devnet

import "fmt"

// rewardRate is what a unit of weight earns in a block, in 1/rewardScale; the
// seed and the validator add to it.
const (
	rewardRate  = 60_000
	rewardScale = 1_000_000_000_000
)

// earned is what a weight has earned at a validator so far. Only validators
// that are bonded give rewards, and they give some with every block.
func (s state) earned(v *validator, weight decimal) decimal {
	blocks := max(0, s.age()-singularity+1)
	switch {
	case v.index == tombstoned:
		blocks = min(blocks, judgement-singularity)
	case v.Status != bonded:
		return decimal{}
	}
	return ratio(weight.whole, uint64(blocks)*(rewardRate+v.bonus), rewardScale)
}

// reward is what a delegation has earned.
func (s state) reward(v *validator, k *stake) decimal {
	return s.earned(v, k.rewardsShares(v, s.added(v, k)))
}

// commission is what a validator keeps of what it earns for others.
func (s state) commission(v *validator) decimal {
	return s.earned(v, s.rewardsShares(v).slashed(10_000-v.rate))
}

// coins is an amount as a list of coins: null where there is none.
func coins(amount decimal) string {
	if amount == (decimal{}) {
		return "null"
	}
	return fmt.Sprintf(`[{"denom":"stake","amount":"%s"}]`, amount)
}

// delegatorRewards answers with what a delegator has earned at each validator.
func delegatorRewards(q *query) error {
	validators := q.accounts[string(q.delegator)]
	if len(validators) == 0 {
		q.text(`{"rewards":null,"total":[]}`)
		return nil
	}
	var total decimal
	q.text(`{"rewards":`)
	list(q, validators, "", func(v *validator) {
		reward := q.reward(v, v.find(q.delegator))
		total = total.add(reward)
		q.textf(`{"validator_address":"%s","reward":%s}`, v.bech32, coins(reward))
	})
	q.textf(`,"total":%s}`, coins(total))
	return nil
}

// delegationRewards answers with what one delegation has earned.
func delegationRewards(q *query) error {
	switch {
	case q.validator == nil:
		return errNoValidator
	case q.stake == nil:
		return errNoTuple
	}
	q.textf(`{"rewards":%s}`, coins(q.reward(q.validator, q.stake)))
	return nil
}

// rewardedValidators answers with the addresses of a delegator's validators.
func rewardedValidators(q *query) error {
	validators := q.accounts[string(q.delegator)]
	if len(validators) == 0 {
		q.text("{}")
		return nil
	}
	return q.object("validators", func() { list(q, validators, "", func(v *validator) { q.textf(`"%s"`, v.Operator) }) })
}

// ofValidator answers about the validator of the path, which must exist.
func ofValidator(serve func(*query, *validator)) func(*query) error {
	return func(q *query) error {
		if q.validator == nil {
			return errNoValidator
		}
		serve(q, q.validator)
		return nil
	}
}

// validatorEarnings answers with what a validator has earned for itself.
func validatorEarnings(q *query, v *validator) {
	var self decimal
	if k := v.find(v.Operator[:]); k != nil {
		self = q.reward(v, k)
	}
	q.textf(`{"operator_address":"%s","self_bond_rewards":%s,"commission":%s}`, v.Operator, coins(self), coins(q.commission(v)))
}

// validatorCommission answers with what a validator keeps.
func validatorCommission(q *query, v *validator) {
	q.textf(`{"commission":{"commission":%s}}`, coins(q.commission(v)))
}

// outstandingRewards answers with what a validator and its delegators have earned.
func outstandingRewards(q *query, v *validator) {
	q.textf(`{"rewards":{"rewards":%s}}`, coins(q.earned(v, q.rewardsShares(v))))
}
