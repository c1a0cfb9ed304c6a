package devnet

import (
	"fmt"
	"regexp"
)

// validDenom is what the chain takes for the name of a token.
var validDenom = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9/:._-]{2,127}$`)

// inDenom answers with an amount of the token that a request names.
func (q *query) inDenom(name string, of func(token string) uint64) error {
	token := q.request.Denom
	if !validDenom.MatchString(token) {
		return fmt.Errorf("rpc error: code = InvalidArgument desc = invalid denom: %s", token)
	}
	q.textf(`{%q:{"denom":%q,"amount":"%d"}}`, name, token, of(token))
	return nil
}

// supply answers with how much there is of a token.
func supply(q *query) error {
	return q.inDenom("amount", func(token string) uint64 {
		if token != denom {
			return 0
		}
		return q.supply()
	})
}

// balance answers with what an account has here: nothing, since whatever is
// not staked is on the execution chain.
func balance(q *query) error { return q.inDenom("balance", func(string) uint64 { return 0 }) }

// named answers with one address of a delegator under a name. An unknown
// delegator has none, and what is not set is left out.
func named(name string, of func(delegator address, isFirst bool) string) func(*query) error {
	return func(q *query) error {
		value := ""
		if q.accounts[string(q.delegator)] != nil {
			value = of(address(q.delegator), address(q.delegator) == q.first)
		}
		if value == "" {
			q.text("{}")
			return nil
		}
		q.textf(`{%q:%q}`, name, value)
		return nil
	}
}

// operatorAddress is who may act for a delegator. Only the first sample
// delegator has set one, and another address for its rewards.
func operatorAddress(_ address, isFirst bool) string {
	if isFirst {
		return "0x00000000000000000000000000000000000A11cE"
	}
	return ""
}

// withdrawAddress is where a delegator's stake goes.
func withdrawAddress(delegator address, _ bool) string { return delegator.checksum() }

// rewardAddress is where a delegator's rewards go.
func rewardAddress(delegator address, isFirst bool) string {
	if isFirst {
		return "0x00000000000000000000000000000000000000C0"
	}
	return delegator.checksum()
}
