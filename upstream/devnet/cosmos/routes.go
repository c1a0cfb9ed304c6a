package cosmos

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// A route is one path of the API. In its pattern {name} stands for one segment and
// {name=**} for the rest of the path.
type route struct {
	pattern string
	params  string // of the query, by proto name
	serve   handler
	method  string // default GET
	local   bool   // answered beside the application: no height comes in or out
}

// A handler answers a query.
type handler func(*query) (string, error)

// moving are the routes that both dialects have.
func moving() (all []route) {
	for _, r := range state.Routes {
		all = append(all, route{
			pattern: "/cosmos/" + r.Module + "/v1beta1" + r.Path, params: r.Params,
			serve: func(q *query) (string, error) { return r.Serve(&q.Query) },
		})
	}
	return all
}

const (
	auth         = "/cosmos/auth/v1beta1"
	bank         = "/cosmos/bank/v1beta1"
	tendermint   = "/cosmos/base/tendermint/v1beta1"
	staking      = "/cosmos/staking/v1beta1"
	transactions = "/cosmos/tx/v1beta1"
)

// routes are the paths of the API whose answers are made, in the order in which they are
// tried, then those of staking, and then those whose answers are documents.
var routes = slices.Concat([]route{
	{pattern: auth + "/accounts", params: "pagination", serve: accounts},
	{pattern: auth + "/accounts/{address}", serve: ofAccount("account", (*query).accountJSON)},
	{pattern: auth + "/account_info/{address}", serve: ofAccount("info", (*query).accountInfo)},
	{pattern: auth + "/bech32/{address_bytes}", serve: bech32Of},
	{pattern: bank + "/balances/{address}", params: "resolve_denom pagination", serve: balances},
	{pattern: bank + "/balances/{address}/by_denom", params: "denom", serve: balanceByDenom},
	{pattern: bank + "/spendable_balances/{address}", params: "pagination", serve: balances},
	{pattern: bank + "/spendable_balances/{address}/by_denom", params: "denom", serve: balanceByDenom},
	{pattern: bank + "/supply", params: "pagination", serve: supplies},
	{pattern: bank + "/supply/by_denom", params: "denom", serve: supplyOf},
	{pattern: tendermint + "/syncing", serve: syncing},
	{pattern: tendermint + "/blocks/latest", serve: latest(0, (*query).blockJSON)},
	{pattern: tendermint + "/blocks/{height}", serve: atHeight((*query).blockJSON)},
	{pattern: tendermint + "/validatorsets/latest", params: "pagination", serve: latest(1, validatorSet)},
	{pattern: tendermint + "/validatorsets/{height}", params: "pagination", serve: atHeight(validatorSet)},
	{pattern: staking + "/historical_info/{height}", serve: historicalInfo},
	{pattern: transactions + "/txs", params: "query page limit order_by events pagination", serve: searchTxs},
	{pattern: transactions + "/txs", serve: broadcastTx, method: http.MethodPost, local: true},
	{pattern: transactions + "/txs/{hash}", serve: txByHash},
	{pattern: transactions + "/txs/block/{height}", params: "pagination", serve: txsInBlock},
	{pattern: transactions + "/simulate", serve: simulate, method: http.MethodPost},
	{pattern: "/cosmwasm/wasm/v1/contract/{address}/smart/{query_data}", serve: smart},
}, moving(), documented())

// find is the route of a path, and what stands for the names in its pattern. A path
// without a route of its own may have a document.
func find(method string, components []string) (*route, map[string]string) {
	for i := range routes {
		r := &routes[i]
		if r.method != method && (r.method != "" || method != http.MethodGet) {
			continue
		}
		if vars, ok := match(r.pattern, components); ok {
			return r, vars
		}
	}
	path := "/" + strings.Join(components, "/")
	if _, ok := documents()[path]; ok && method == http.MethodGet {
		return &route{pattern: path, params: "pagination", serve: document}, nil
	}
	return nil, nil
}

// path is where the document of a request is: the pattern with the values of its names.
func (r *route) path(q *query) string {
	var values []string
	for name, value := range q.args {
		if strings.Contains(name, "_addr") {
			value = strings.ToLower(value) // addresses may be in capitals
		}
		values = append(values, "{"+name+"}", value, "{"+name+"=**}", value)
	}
	return strings.NewReplacer(values...).Replace(r.pattern)
}

// match compares a path to a pattern, segment by segment.
func match(pattern string, components []string) (map[string]string, bool) {
	vars := map[string]string{}
	segments := strings.Split(pattern[1:], "/")
	for i, want := range segments {
		name, isVar := strings.CutPrefix(want, "{")
		name = strings.TrimSuffix(name, "}")
		name, rest := strings.CutSuffix(name, "=**")
		switch {
		case i >= len(components):
			return nil, false
		case rest:
			vars[name] = strings.Join(components[i:], "/")
			return vars, true
		case isVar:
			vars[name] = components[i]
		case want != components[i]:
			return nil, false
		}
	}
	return vars, len(segments) == len(components)
}
