package cosmos

import (
	"fmt"
	"regexp"
)

func coinJSON(denom string, amount int64) string {
	return fmt.Sprintf(`{"denom":%q,"amount":"%d"}`, denom, amount)
}

// tracedDenom is what resolve_denom makes of the one ibc denomination.
const tracedDenom = "transfer/channel-0/uatom"

func (c coin) name() string { return c.Denom }

// balances serves balances and spendable balances.
func balances(q *query) (string, error) {
	raw, err := q.holder()
	if err != nil {
		return "", err
	}
	if p := q.pageAsked(); p.Key != "" && p.Offset > 0 {
		return "", fail(invalidArgument, "paginate: %v", errBoth)
	}
	a := q.byAddress[raw]
	if a == nil {
		a = &account{}
	}
	return list(q, "balances", a.coins, coin.name, func(c coin) string {
		if c.Denom == ibcDenom && q.args["resolve_denom"] == "true" {
			return coinJSON(tracedDenom, q.balance(a, c))
		}
		return coinJSON(c.Denom, q.balance(a, c))
	})
}

// ValidDenom is what the bank takes for a denomination.
var ValidDenom = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9/:._-]{2,127}$`)

// inDenom serves an amount of the denomination that is asked for.
func (q *query) inDenom(name string, amount func(denom string) int64) (string, error) {
	denom := q.args["denom"]
	if !ValidDenom.MatchString(denom) {
		return "", fail(invalidArgument, "invalid denom: %s", denom)
	}
	return fmt.Sprintf(`{%q:%s}`, name, coinJSON(denom, amount(denom))), nil
}

func balanceByDenom(q *query) (string, error) {
	raw, err := q.holder()
	if err != nil {
		return "", err
	}
	return q.inDenom("balance", func(denom string) int64 { return q.amount(q.byAddress[raw], denom) })
}

func supplyOf(q *query) (string, error) { return q.inDenom("amount", q.supply) }

func supplies(q *query) (string, error) {
	coins := q.byAddress[mustDecode(accountPrefix, WideDelegator)].coins
	return list(q, "supply", coins, coin.name, func(c coin) string { return coinJSON(c.Denom, q.supply(c.Denom)) })
}
