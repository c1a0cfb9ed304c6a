package cosmos

import (
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"
)

// contract serves what is below the one contract, from the block on that made it.
func contract(serve func(*query) ([]byte, error)) func(*query) ([]byte, error) {
	return func(q *query) ([]byte, error) {
		if q.args["address"] != Contract || q.height < building {
			return nil, fail(unknown, "codespace wasm code 22: no such contract: address %s", q.args["address"])
		}
		return serve(q)
	}
}

// smart answers the queries that the contract knows.
func smart(q *query) ([]byte, error) {
	words := q.args["query_data"]
	var parsed map[string]json.RawMessage
	if json.Unmarshal([]byte(words), &parsed) != nil {
		return nil, fail(invalidArgument, "invalid query data")
	}
	switch {
	case parsed["verifier"] != nil:
		return fmt.Appendf(nil, `{"data":{"verifier":%q}}`, WideDelegator), nil
	case parsed["recurse"] != nil:
		return []byte(`{"data":{"hashed":"7WLqFvvcXfe1eaiHdBbnuR1G+PSuHxzrUwm94U0FvVs="}}`), nil
	case parsed["other_balance"] != nil:
		return q.otherBalance(gjson.Get(words, "other_balance.address").String())
	}
	return nil, fail(unknown, "codespace wasm code 9: query wasm contract failed: Error parsing into type hackatom::msg::QueryMsg: unknown variant")
}

// otherBalance is what an account has, as a contract sees it.
func (q *query) otherBalance(address string) ([]byte, error) {
	raw, err := decode(accountPrefix, address)
	if err != nil {
		return nil, err
	}
	body := []byte(`{"data":{"amount":[`)
	if a := q.byAddress[string(raw)]; a != nil {
		for i, c := range a.coins {
			if i > 0 {
				body = append(body, ',')
			}
			body = append(body, coinJSON(c.denom, q.balance(a, c))...)
		}
	}
	return append(body, "]}}"...), nil
}

// rawState reads a key of the contract's store.
func rawState(q *query) ([]byte, error) {
	if q.args["query_data"] == "config" {
		return []byte(documents()["/cosmwasm/wasm/v1/contract/"+Contract+"/raw/Y29uZmln"]), nil
	}
	return []byte(`{"data":null}`), nil
}
