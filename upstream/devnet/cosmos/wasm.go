package cosmos

import "encoding/json"

// contract serves what is below the one contract, from the block on that made it.
func contract(serve handler) handler {
	return func(q *query) (string, error) {
		if q.args["address"] != Contract || q.height < building {
			return "", fail(unknown, "codespace wasm code 22: no such contract: address %s", q.args["address"])
		}
		return serve(q)
	}
}

// smart answers the queries that the contract has documents for.
func smart(q *query) (string, error) {
	if !json.Valid([]byte(q.args["query_data"])) {
		return "", fail(invalidArgument, "invalid query data")
	}
	return documentElse(failing(fail(unknown, "codespace wasm code 9: query wasm contract failed: Error parsing into type hackatom::msg::QueryMsg: unknown variant")))(q)
}
