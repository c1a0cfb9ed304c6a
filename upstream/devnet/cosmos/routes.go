package cosmos

import (
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// A route is a path of the API. In its pattern, {name} matches one segment and {name=**} the rest of the path.
type route struct {
	pattern string
	params  string // names of query parameters, as in protobuf
	serve   handler
	method  string // default GET
	local   bool   // not answered by the application: it neither reads nor returns a height
}

// A handler answers a query.
type handler func(*query) (string, error)

// moving returns the routes that both dialects have.
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

// routes are the paths of the API, in the order in which they are matched: computed responses, staking, and then
// documents.
var routes = slices.Concat([]route{
	{pattern: auth + "/accounts", params: "pagination", serve: accounts},
	{pattern: auth + "/accounts/{address}", serve: ofAccount("account", (*query).accountJSON)},
	{pattern: auth + "/account_info/{address}", serve: ofAccount("info", (*query).accountInfo)},
	{pattern: auth + "/bech32/{address_bytes}", serve: bech32Of},
	{pattern: bank + "/balances/{address}", params: "resolve_denom pagination", serve: balances},
	{pattern: bank + "/balances/{address}/by_denom", params: "denom", serve: balanceByDenom},
	{pattern: bank + "/spendable_balances/{address}", params: "pagination", serve: balances},
	{pattern: bank + "/spendable_balances/{address}/by_denom", params: "denom", serve: balanceByDenom},
	{pattern: tendermint + "/blocks/latest", serve: latest(0, (*query).blockJSON)},
	{pattern: tendermint + "/blocks/{height}", serve: atHeight((*query).blockJSON)},
	{pattern: tendermint + "/validatorsets/latest", params: "pagination", serve: latest(1, validatorSet)},
	{pattern: tendermint + "/validatorsets/{height}", params: "pagination", serve: atHeight(validatorSet)},
	{pattern: staking + "/historical_info/{height}", serve: historicalInfo},
	{pattern: transactions + "/txs", params: recordedSearch.Params, serve: searchTxs},
	{pattern: transactions + "/txs", serve: broadcastTx, method: http.MethodPost, local: true},
	{pattern: transactions + "/txs/{hash}", serve: txByHash},
	{pattern: transactions + "/txs/block/{height}", params: "pagination", serve: txsInBlock},
	{pattern: transactions + "/simulate", serve: simulate, method: http.MethodPost},
	{pattern: "/cosmwasm/wasm/v1/contract/{address}/smart/{query_data}", serve: smart},
}, moving(), documented())

// find returns the route of a path and the values of the names in its pattern. A path without a route may have a
// document.
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

// path returns the path of a request's document: the pattern with the values of its names.
func (r *route) path(q *query) string {
	var values []string
	for name, value := range q.args {
		if strings.Contains(name, "_addr") {
			value = strings.ToLower(value) // addresses may be in upper case
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

//go:embed documents.jsonl
var documentLines []byte

//go:embed routes.jsonl
var routeLines []byte

// documents are the constant responses, by path.
var documents = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, pair := range state.Lines[[2]string](documentLines) {
		all[pair[0]] = pair[1]
	}
	return all
})

// A documentRoute is a route whose answers are documents.
type documentRoute struct {
	Pattern, Params string     // as in a route
	Key             []string   // parameters in the path of the document
	List            string     // name of the list that is empty if there is no document
	Answer          string     // otherwise the response in that case
	Code            codes.Code // otherwise the error in that case
	Text            string     // its text, with ${name} for parameters
}

// documented returns the routes of routes.jsonl.
func documented() (all []route) {
	for _, d := range state.Lines[documentRoute](routeLines) {
		all = append(all, route{pattern: d.Pattern, params: d.Params, serve: d.serve})
	}
	return all
}

func (d documentRoute) serve(q *query) (string, error) {
	sep := "?"
	for _, name := range d.Key {
		if value := q.args[name]; value != "" && value != "0" { // zero means unset
			q.path, sep = q.path+sep+name+"="+value, "&"
		}
	}
	switch _, known := documents()[q.path]; {
	case known:
		return document(q)
	case d.List != "":
		return q.Query.Paged(`{"` + d.List + `":[],"pagination":{}}`)
	case d.Answer != "":
		return os.Expand(d.Answer, q.Query.Value), nil
	}
	return "", status.Error(d.Code, os.Expand(d.Text, q.Query.Value))
}

// fill returns a document with values for its ${names}. pairs alternates names and values.
func fill(path string, pairs ...any) string {
	values := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i].(string)] = fmt.Sprint(pairs[i+1]) //nolint:forcetypeassert // it is our own
	}
	return os.Expand(documents()[path], func(name string) string { return values[name] })
}

// document returns the document of a path; of a list, the requested page.
func document(q *query) (string, error) {
	text, ok := documents()[q.path]
	if !ok {
		return "", notImplemented
	}
	return q.Query.Answer(text)
}

// smart answers the contract queries that have documents.
func smart(q *query) (string, error) {
	if !gjson.Valid(q.args["query_data"]) {
		return "", status.Error(codes.InvalidArgument, "invalid query data")
	}
	if _, known := documents()[q.path]; !known {
		return "", errors.New("codespace wasm code 9: query wasm contract failed: Error parsing into type hackatom::msg::QueryMsg: unknown variant")
	}
	return document(q)
}
