package devnet

import (
	"fmt"
	"regexp"
)

// validDenom is what the chain takes for the name of a token.
var validDenom = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9/:._-]{2,127}$`)

// denomination is the token that a request names.
func (q *query) denomination() (string, error) {
	name := q.request.Denom
	if !validDenom.MatchString(name) {
		return "", fmt.Errorf("rpc error: code = InvalidArgument desc = invalid denom: %s", name)
	}
	return name, nil
}

// supply answers with how much there is of a token.
func supply(q *query) error {
	name, err := q.denomination()
	if err != nil {
		return err
	}
	amount := uint64(0)
	if name == denom {
		amount = q.supply()
	}
	q.textf(`{"amount":{"denom":%q,"amount":"%d"}}`, name, amount)
	return nil
}

// balance answers with what an account has here: nothing, since whatever is
// not staked is on the execution chain.
func balance(q *query) error {
	if _, err := q.delegator(0); err != nil {
		return err
	}
	name, err := q.denomination()
	if err != nil {
		return err
	}
	q.textf(`{"balance":{"denom":%q,"amount":"0"}}`, name)
	return nil
}

// operatorAddress answers with who may act for a delegator. Only the first
// sample delegator has set one, and another address for its rewards.
func operatorAddress(q *query) error {
	return q.named("operator_address", func(a *account, isFirst bool) string {
		if isFirst {
			return "0x00000000000000000000000000000000000A11cE"
		}
		return ""
	})
}

// withdrawAddress answers with where a delegator's stake goes.
func withdrawAddress(q *query) error {
	return q.named("withdraw_address", func(a *account, _ bool) string { return a.address.checksum() })
}

// rewardAddress answers with where a delegator's rewards go.
func rewardAddress(q *query) error {
	return q.named("reward_address", func(a *account, isFirst bool) string {
		if isFirst {
			return "0x00000000000000000000000000000000000000C0"
		}
		return a.address.checksum()
	})
}

// named answers with one address of a delegator under a name. An unknown
// delegator has none, and what is not set is left out.
func (q *query) named(name string, of func(a *account, isFirst bool) string) error {
	raw, err := q.delegator(0)
	if err != nil {
		return err
	}
	value := ""
	if len(raw) == len(address{}) {
		if a := q.accounts[address(raw)]; a != nil {
			value = of(a, a.address == q.first)
		}
	}
	if value == "" {
		q.text("{}")
		return nil
	}
	q.textf(`{%q:%q}`, name, value)
	return nil
}
