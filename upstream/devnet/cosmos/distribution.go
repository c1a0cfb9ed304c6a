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
	return fmt.Sprintf(`[{"denom":"stake","amount":%q}]`, Decimal(millionths))
}

func delegatorRewards(q *query) (string, error) {
	var total int64
	var entries []string
	for _, k := range q.stakes() {
		amount := q.earned(k)
		total += amount
		entries = append(entries, fmt.Sprintf(`{"validator_address":%q,"reward":%s}`, k.to.Operator, reward(amount)))
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
		names = append(names, `"`+k.to.Operator+`"`)
	}
	return fmt.Sprintf(`{"validators":[%s]}`, strings.Join(names, ",")), nil
}

// withdrawAddress is the account itself, but for the one that has a document.
var withdrawAddress = documentElse(func(q *query) (string, error) {
	return fmt.Sprintf(`{"withdraw_address":%q}`, accountText(q.delegator)), nil
})

// inflation moves with every block.
func inflation(q *query) (string, error) {
	return fmt.Sprintf(`{"inflation":"0.13%016d"}`, (q.height+q.forks)*18_892_270_548), nil
}
