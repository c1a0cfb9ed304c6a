package devnet

import (
	"fmt"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// inDenom answers with an amount of the token that a request names.
func (q *query) inDenom(name string, of func(token string) uint64) error {
	token := q.request.Denom
	if !cosmos.ValidDenom.MatchString(token) {
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

// addressOr answers with an address that a delegator may set, as a member with a
// name. Only the first sample delegator has set one. The answer for others is
// their own address, if own, or empty.
func addressOr(own bool, name, set string) func(*query) error {
	return func(q *query) error {
		value := ""
		switch {
		case q.accounts[string(q.delegator)] == nil: // an unknown delegator has none
		case set != "" && address(q.delegator) == q.first:
			value = set
		case own:
			value = address(q.delegator).checksum()
		}
		if value == "" {
			q.text("{}")
			return nil
		}
		q.textf(`{%q:%q}`, name, value)
		return nil
	}
}
