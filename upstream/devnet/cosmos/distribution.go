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

func delegatorRewards(q *query) ([]byte, error) {
	raw, err := q.account("delegator_address")
	if err != nil {
		return nil, err
	}
	var total int64
	var entries []string
	for _, k := range q.stakesOf(raw) {
		amount := q.earned(k)
		total += amount
		entries = append(entries, fmt.Sprintf(`{"validator_address":%q,"reward":%s}`, k.to.operator, reward(amount)))
	}
	return fmt.Appendf(nil, `{"rewards":[%s],"total":%s}`, strings.Join(entries, ","), reward(total)), nil
}

func delegationRewards(q *query) ([]byte, error) {
	q.args["delegator_addr"], q.args["validator_addr"] = q.args["delegator_address"], q.args["validator_address"]
	k, err := q.pair()
	if err != nil {
		return nil, err
	}
	if k == nil {
		return nil, fail(unknown, "codespace staking code 19: no delegation for (address, validator) tuple")
	}
	return fmt.Appendf(nil, `{"rewards":%s}`, reward(q.earned(k))), nil
}

func rewardedValidators(q *query) ([]byte, error) {
	raw, err := q.account("delegator_address")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, k := range q.stakesOf(raw) {
		names = append(names, `"`+k.to.operator+`"`)
	}
	return fmt.Appendf(nil, `{"validators":[%s]}`, strings.Join(names, ",")), nil
}

// withdrawAddress is the account itself, but for the one that has a document.
func withdrawAddress(q *query) ([]byte, error) {
	raw, err := q.account("delegator_address")
	if err != nil {
		return nil, err
	}
	if body, err := document(q); err == nil {
		return body, nil
	}
	return fmt.Appendf(nil, `{"withdraw_address":%q}`, accountText(raw)), nil
}

// rewarded finds the validator that distribution is asked about.
func (q *query) rewarded() (*validator, error) {
	raw, err := q.operator("validator_address")
	if err != nil {
		return nil, err
	}
	v := q.member(raw)
	if v == nil {
		return nil, fail(unknown, "codespace staking code 3: validator does not exist")
	}
	return v, nil
}

func commissionOf(q *query) ([]byte, error) {
	v, err := q.rewarded()
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"commission":{"commission":%s}}`, reward(q.commission(v))), nil
}

func outstandingOf(q *query) ([]byte, error) {
	v, err := q.rewarded()
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"rewards":{"rewards":%s}}`, reward(q.commission(v)*15)), nil
}

func earningsOf(q *query) ([]byte, error) {
	v, err := q.rewarded()
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"operator_address":%q,"self_bond_rewards":%s,"commission":%s}`,
		accountText(v.raw), reward(q.commission(v)*5), reward(q.commission(v))), nil
}

func slashes(q *query) ([]byte, error) {
	if _, err := q.rewarded(); err != nil {
		return nil, err
	}
	return q.page.render(listing{name: "slashes"})
}

// inflation moves with every block.
func inflation(q *query) ([]byte, error) {
	return fmt.Appendf(nil, `{"inflation":"0.13%016d"}`, (q.height+q.forks)*18_892_270_548), nil
}

func annualProvisions(q *query) ([]byte, error) {
	return fmt.Appendf(nil, `{"annual_provisions":%q}`, decimal(130_000*(q.supply("stake")/1000)*1000)), nil
}
