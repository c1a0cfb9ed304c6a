package cosmos

import (
	"fmt"
	"strings"
)

// reward is a list of one coin, or of none.
func reward(millionths int64) string {
	if millionths == 0 {
		return "[]"
	}
	return fmt.Sprintf(`[{"denom":"stake","amount":%q}]`, decimal(millionths))
}

func delegatorRewards(q *query) (string, error) {
	var total int64
	var entries []string
	for _, k := range q.stakes() {
		amount := q.earned(k)
		total += amount
		entries = append(entries, fmt.Sprintf(`{"validator_address":%q,"reward":%s}`, k.to.operator, reward(amount)))
	}
	return fmt.Sprintf(`{"rewards":[%s],"total":%s}`, strings.Join(entries, ","), reward(total)), nil
}

func delegationRewards(q *query) (string, error) {
	k := q.stake()
	if k == nil {
		return "", fail(unknown, "codespace staking code 19: no delegation for (address, validator) tuple")
	}
	return fmt.Sprintf(`{"rewards":%s}`, reward(q.earned(k))), nil
}

func rewardedValidators(q *query) (string, error) {
	var names []string
	for _, k := range q.stakes() {
		names = append(names, `"`+k.to.operator+`"`)
	}
	return fmt.Sprintf(`{"validators":[%s]}`, strings.Join(names, ",")), nil
}

// withdrawAddress is the account itself, but for the one that has a document.
var withdrawAddress = documentElse(func(q *query) (string, error) {
	return fmt.Sprintf(`{"withdraw_address":%q}`, accountText(q.delegator)), nil
})

// rewarded serves what distribution knows about a validator, which must exist.
func rewarded(serve func(*query, *validator) (string, error)) handler {
	return func(q *query) (string, error) {
		v := q.member(q.operator)
		if v == nil {
			return "", fail(unknown, "codespace staking code 3: validator does not exist")
		}
		return serve(q, v)
	}
}

func commissionOf(q *query, v *validator) (string, error) {
	return fmt.Sprintf(`{"commission":{"commission":%s}}`, reward(q.commission(v))), nil
}

func outstandingOf(q *query, v *validator) (string, error) {
	return fmt.Sprintf(`{"rewards":{"rewards":%s}}`, reward(q.commission(v)*15)), nil
}

func earningsOf(q *query, v *validator) (string, error) {
	return fmt.Sprintf(`{"operator_address":%q,"self_bond_rewards":%s,"commission":%s}`,
		accountText(v.raw), reward(q.commission(v)*5), reward(q.commission(v))), nil
}

func slashes(q *query, _ *validator) (string, error) {
	return list[string](q, "slashes", nil, nil, nil)
}

// inflation moves with every block.
func inflation(q *query) (string, error) {
	return fmt.Sprintf(`{"inflation":"0.13%016d"}`, (q.height+q.forks)*18_892_270_548), nil
}

func annualProvisions(q *query) (string, error) {
	return fmt.Sprintf(`{"annual_provisions":%q}`, decimal(130_000*(q.supply("stake")/1000)*1000)), nil
}
