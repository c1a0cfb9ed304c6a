package devnet

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
	case v.status != bonded:
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

// appendCoins appends an amount as a list of coins: null where there is none.
func appendCoins(b []byte, amount decimal) []byte {
	if amount.isZero() {
		return append(b, "null"...)
	}
	b = append(b, `[{"denom":"`+denom+`","amount":"`...)
	return append(amount.appendTo(b), `"}]`...)
}

// delegatorRewards answers with what a delegator has earned at each validator.
func delegatorRewards(q *query) error {
	raw, err := q.address(0, "empty delegator address")
	if err != nil {
		return err
	}
	validators := q.delegations(raw)
	if len(validators) == 0 {
		q.text(`{"rewards":null,"total":[]}`)
		return nil
	}
	var total decimal
	q.list(`{"rewards":`, len(validators), "null", func(i int) {
		v := validators[i]
		reward := q.reward(v, v.find(raw))
		total = total.add(reward)
		q.text(`{"validator_address":"` + v.bech32 + `","reward":`)
		q.out = append(appendCoins(q.out, reward), '}')
	})
	q.text(`,"total":`)
	q.out = append(appendCoins(q.out, total), '}')
	return nil
}

// delegationRewards answers with what one delegation has earned.
func delegationRewards(q *query) error {
	p, err := q.pair(0, 1)
	switch {
	case err != nil:
		return err
	case p.validator == nil:
		return errNoValidator
	case p.stake == nil:
		return errNoTuple
	}
	q.text(`{"rewards":`)
	q.out = append(appendCoins(q.out, q.reward(p.validator, p.stake)), '}')
	return nil
}

// rewardedValidators answers with the addresses of a delegator's validators.
func rewardedValidators(q *query) error {
	raw, err := q.address(0, "empty delegator address")
	if err != nil {
		return err
	}
	validators := q.delegations(raw)
	if len(validators) == 0 {
		q.text("{}")
		return nil
	}
	q.list(`{"validators":`, len(validators), "", func(i int) { q.textf("%q", validators[i].operator) })
	q.text("}")
	return nil
}

// existing is the validator of a path, which must exist.
func (q *query) existing() (*validator, error) {
	raw, err := q.address(0, "empty validator address")
	if err != nil {
		return nil, err
	}
	v := q.lookup(raw)
	if v == nil {
		return nil, errNoValidator
	}
	return v, nil
}

// validatorEarnings answers with what a validator has earned for itself.
func validatorEarnings(q *query) error {
	v, err := q.existing()
	if err != nil {
		return err
	}
	var self decimal
	if k := v.find(v.operator[:]); k != nil {
		self = q.reward(v, k)
	}
	q.textf(`{"operator_address":%q,"self_bond_rewards":`, v.operator)
	q.out = appendCoins(q.out, self)
	q.text(`,"commission":`)
	q.out = append(appendCoins(q.out, q.commission(v)), '}')
	return nil
}

// validatorCommission answers with what a validator keeps.
func validatorCommission(q *query) error {
	v, err := q.existing()
	if err != nil {
		return err
	}
	q.text(`{"commission":{"commission":`)
	q.out = append(appendCoins(q.out, q.commission(v)), "}}"...)
	return nil
}

// outstandingRewards answers with what a validator and its delegators have earned.
func outstandingRewards(q *query) error {
	v, err := q.existing()
	if err != nil {
		return err
	}
	q.text(`{"rewards":{"rewards":`)
	q.out = append(appendCoins(q.out, q.earned(v, q.rewardsShares(v))), "}}"...)
	return nil
}
