package docs

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/dialect"
)

// addCosmos adds an operation for every row of a chain of the Cosmos SDK. Bodies are the node's own; the SDK describes them.
func (d *description) addCosmos() {
	schemas := d.Components.Schemas.Map()
	schemas["Answer"] = &huma.Schema{Type: huma.TypeObject, Description: "The node's own answer, byte for byte."}
	schemas["Refusal"] = &huma.Schema{
		Type: huma.TypeObject, Required: []string{"code", "message", "details"},
		Properties: map[string]*huma.Schema{
			"code":    {Type: huma.TypeInteger, Format: "int32", Description: "The gRPC code."},
			"message": {Type: huma.TypeString, Description: "What is wrong; the node's own words where it was the node that refused."},
			"details": {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeObject}, Description: "Nothing, as a rule."},
		},
	}
	d.addRefusals()
	for _, row := range d.o.Cosmos {
		module, rest := moduleOf(row.Pattern)
		if module == "" { // whatever else there is
			continue
		}
		if !slices.ContainsFunc(d.Tags, func(t *huma.Tag) bool { return t.Name == module }) {
			d.Tags = append(d.Tags, &huma.Tag{Name: module, Description: "Queries of " + module + "."})
		}
		given, values := exampleOfSDK(row)
		d.examples[row.Name] = given
		d.addRow(row, module, operationText{rest, classTexts[row.Class]}, d.answer(), values)
	}
}

// classTexts say how the answers of a class are kept.
var classTexts = map[blocks.Class]string{
	blocks.Live:   "Read anew at each block.",
	blocks.Params: "Changed by governance alone, and read anew after some blocks.",
	blocks.Block:  "Kept for good as soon as the block is there.",
	blocks.Found:  "Kept for good once it is found.",
	blocks.Latest: "Read anew at each block. It cannot be read at a height.",
	blocks.Never:  "Passed on to the node each time.",
}

// version ends the name of a module in a path.
var version = regexp.MustCompile(`^/([a-z_/]+/v[0-9][a-z0-9]*)/(.+)$`)

// moduleOf is the module of a path, and what is behind it; "" for a path that belongs to none.
func moduleOf(pattern string) (module, rest string) {
	m := version.FindStringSubmatch(pattern)
	if m == nil {
		return "", ""
	}
	return strings.ReplaceAll(m[1], "/", "."), m[2]
}

// aboutCosmos introduces the document of a chain of the SDK.
var aboutCosmos = "The REST API of a Cosmos SDK chain, answered from a cache that measures freshness in blocks: the node's own bytes, statuses and errors.\n\n" +
	fmt.Sprintf("`%s` asks for a height and tells one, as `X-Block-Height` does. ", strings.Join(cosmos.HeightHeaders, "` or `")) +
	"A height may be given once. What CometBFT answers (blocks, validator sets, transactions) is as of the newest block, whatever height is asked for.\n\n" +
	"Parameters may come in any order, in snake or camel case, with integers in any base and addresses in capitals: one spelling is cached. " +
	"Routes of modules that are not listed are served, too. Transactions are posted to `/cosmos/tx/v1beta1/txs` and `simulate` as to the node, within limits.\n\n"

// Accounts that the simulated chain has.
const (
	delegatorExample = "cosmos1t3mw6fkk9nr558qy6jphu726glyjpl0w8kalv8"
	validatorExample = "cosmosvaloper1njduk4r80p6axplux2yrh06vpxvfq6a63w0vv9"
	granteeExample   = "cosmos1ttacxvxtejnhmxdylg9qllqzlxy0lsjhqdkz0v"
	contractExample  = "cosmos14hj2tavq8fpesdwxxcu44rty3hh90vhujrvcmstl4zr3txmfvw9s4hmalr"
	policyExample    = "cosmos1afk9zr2hn2jsac63h4hm60vl9z3e5u69gndzf7c99cqge3vzwjzsfwkgpd"
	adminExample     = "cosmos1k5m0d7t426szpuslgtz06qwlcj6szx9zws93yx"
	denomExample     = "ibc/27394FB092D2ECCD56123C74F36E4C1F926001CEADA9CA97EA622B25F41E5EB2"
)

// poolOfSDK is an answer to the path of examplePath.
var poolOfSDK = json.RawMessage(`{"pool": {"not_bonded_tokens": "4838201123432189", "bonded_tokens": "106003378000974350"}}`)

// valuesOfSDK are the parameters of the examples of a chain of the SDK, by name. Those of
// the query are given where a row needs them.
var valuesOfSDK = map[string]string{
	"address": delegatorExample, "delegator_addr": delegatorExample, "delegator_address": delegatorExample,
	"granter": delegatorExample, "grantee": granteeExample, "owner": delegatorExample, "recipient": delegatorExample,
	"validator_addr": validatorExample, "validator_address": validatorExample,
	"cons_address": "cosmosvalcons1d3fqeqw86clttft5hmd0j63tl7tkylsu0u7chq", "address_bytes": "XHbtJsWMx0ocBNSDfnlaR8kg_e4=",
	"creator_address": "cosmos1tjkxy5jn2nma5584c47d83r0udvv025gx5630l", "admin": adminExample,
	"name": "distribution", "params_type": "voting", "denom": denomExample, "hash": denomExample, "trace": "transfer/channel-0/uatom",
	"proposal_id": "10", "voter": "cosmos1ys8s9kjd2q6r94smg4c47kx7qry9a6v40vt8z9", "depositor": "cosmos1y470pqu3gpgdk68jm695epvwd8gtskjc40sdgm",
	"group_id": "1", "code_id": "1", "class_id": "kitty", "id": "cat0", "height": "1000", "last_height": "1000",
	"channel_id": "channel-0", "port_id": "transfer", "connection": "connection-localhost", "connection_id": "connection-localhost", "client_id": "09-localhost",
	"query_data": "Y29uZmln",
}

// ownValuesOfSDK are those of single rows that differ.
var ownValuesOfSDK = map[string]map[string]string{
	"auth_address_by_id":           {"id": "0", "account_id": "5"},
	"authz_grants":                 {"granter": delegatorExample, "grantee": granteeExample},
	"bank_balance":                 {"denom": "stake"},
	"bank_spendable_by_denom":      {"denom": "stake"},
	"bank_supply_by_denom":         {"denom": "stake"},
	"bank_denom_metadata_by_query": {"denom": denomExample},
	"bank_denom_owners_by_query":   {"denom": denomExample},
	"group_policy_info":            {"address": policyExample},
	"group_proposals":              {"address": policyExample},
	"gov_deposit":                  {"proposal_id": "7"},
	"gov_deposits":                 {"proposal_id": "7"},
	"epochs_current":               {"identifier": "day"},
	"evidence":                     {"hash": "9B9F721B364DF30525C9EEBCDB21508337E813684F74E6BEE3D55668FF32F02E"},
	"tx":                           {"hash": "E616E9D731795221BF1A3360E596A7830E884944F049955B2B77E53871E4C631"},
	"gov_v1beta1_params":           {"params_type": "tallying"},
	"gov_v1beta1_proposal":         {"proposal_id": "2"},
	"gov_v1beta1_deposits":         {"proposal_id": "7"},
	"gov_v1beta1_deposit":          {"proposal_id": "7"},
	"nft_nfts":                     {"class_id": "kitty"},
	"comet_abci_query":             {"path": "/app/version"},
	"tx_search":                    {"query": "tx.height=1000"},
	"wasm_contract":                {"address": contractExample},
	"wasm_history":                 {"address": contractExample},
	"wasm_state":                   {"address": contractExample},
	"wasm_raw":                     {"address": contractExample},
	"wasm_smart":                   {"address": contractExample, "query_data": "eyJ2ZXJpZmllciI6e319"},
}

// exampleOfSDK is the request of a row of the SDK with the values of a simulated chain.
func exampleOfSDK(row dialect.Row) (example, map[string]string) {
	own, values, query := ownValuesOfSDK[row.Name], map[string]string{}, url.Values{}
	path := variable.ReplaceAllStringFunc(row.Pattern, func(text string) string {
		name := variable.FindStringSubmatch(text)[1]
		values[name] = valuesOfSDK[name]
		if value, ok := own[name]; ok {
			values[name] = value
		}
		return values[name]
	})
	for _, word := range strings.Fields(row.Query) {
		name, _, _ := strings.Cut(word, ":")
		if value, ok := own[name]; ok {
			values[name] = value
			query.Set(name, value)
		}
	}
	target := url.URL{Path: path, RawQuery: query.Encode()}
	request, _ := json.Marshal(target.String()) // a text
	return example{Request: request}, values
}
