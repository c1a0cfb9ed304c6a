package cosmos

import (
	"fmt"
	"regexp"
)

// validDenom is what the bank takes for a denomination.
var validDenom = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9/:._-]{2,127}$`)

func coinJSON(denom string, amount int64) string {
	return fmt.Sprintf(`{"denom":%q,"amount":"%d"}`, denom, amount)
}

// tracedDenom is what resolve_denom makes of the one ibc denomination.
const tracedDenom = "transfer/channel-0/uatom"

// balances serves balances and spendable balances.
func balances(q *query) ([]byte, error) {
	raw, err := q.holder()
	if err != nil {
		return nil, err
	}
	if q.page.key != "" && q.page.offset > 0 {
		return nil, fail(invalidArgument, "paginate: %v", errBoth)
	}
	var coins []coin
	a := q.byAddress[raw]
	if a != nil {
		coins = a.coins
	}
	return q.page.render(listing{
		name: "balances", size: len(coins),
		key: func(i int) string { return coins[i].denom },
		item: func(i int) string {
			denom := coins[i].denom
			if denom == IBCDenom && q.args["resolve_denom"] == "true" {
				denom = tracedDenom
			}
			return coinJSON(denom, q.balance(a, coins[i]))
		},
	})
}

func balanceByDenom(q *query) ([]byte, error) {
	raw, err := q.holder()
	if err != nil {
		return nil, err
	}
	denom := q.args["denom"]
	if !validDenom.MatchString(denom) {
		return nil, fail(invalidArgument, "invalid denom: %s", denom)
	}
	var amount int64
	if a := q.byAddress[raw]; a != nil {
		for _, c := range a.coins {
			if c.denom == denom {
				amount = q.balance(a, c)
			}
		}
	}
	return fmt.Appendf(nil, `{"balance":%s}`, coinJSON(denom, amount)), nil
}

func supplyOf(q *query) ([]byte, error) {
	denom := q.args["denom"]
	if !validDenom.MatchString(denom) {
		return nil, fail(invalidArgument, "invalid denom: %s", denom)
	}
	return fmt.Appendf(nil, `{"amount":%s}`, coinJSON(denom, q.supply(denom))), nil
}

func supplies(q *query) ([]byte, error) {
	coins := q.byAddress[mustDecode(accountPrefix, WideDelegator)].coins
	return q.page.render(listing{
		name: "supply", size: len(coins),
		key:  func(i int) string { return coins[i].denom },
		item: func(i int) string { return coinJSON(coins[i].denom, q.supply(coins[i].denom)) },
	})
}

// sendEnabled lists the denominations that are named, or all.
func sendEnabled(q *query) ([]byte, error) {
	if len(q.list["denoms"]) > 0 {
		return []byte(documents()[q.path+"?denoms=token&denoms=stake"]), nil
	}
	return document(q)
}
