package cosmos

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protowire"

	"google.golang.org/grpc/codes"

	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// A service is a method of a gRPC service, which abci_query calls, and whose answer moves with
// the blocks: that of the REST API, as a message. Those of others are documents.
type service struct {
	method  string
	pattern string // of its route
	request string // the names of the first fields
	answer  string // its fields, as in wires
}

// services are the methods that can be called, besides documents.
var services = []service{
	{"/cosmos.auth.v1beta1.Query/Account", auth + "/accounts/{address}", "address", "account:any"},
	{"/cosmos.bank.v1beta1.Query/Balance", bank + "/balances/{address}/by_denom", "address denom", "balance:Coin"},
	{"/cosmos.bank.v1beta1.Query/AllBalances", bank + "/balances/{address}", "address", "balances:Coin"},
	{"/cosmos.staking.v1beta1.Query/Pool", staking + "/pool", "", "pool:Pool"},
	{"/cosmos.tx.v1beta1.Service/GetTx", transactions + "/txs/{hash}", "hash", "_ tx_response:TxResponse"},
}

// An Answer is what abci_query says, and gRPC in its place.
type Answer struct {
	Value     []byte
	Status    codes.Code // of gRPC
	Message   string     // of that
	Code      int
	Log       string
	Codespace string
	Height    int64 // 0 where no state was read
}

// abciErrors are the codes of abci_query for those of gRPC, with what the SDK adds to the text.
var abciErrors = map[codes.Code]struct {
	code   int
	suffix string
}{codes.InvalidArgument: {18, "invalid request"}, codes.NotFound: {22, "key not found"}, codes.Internal: {6, "unknown request"}}

// Query calls a method at a height, 0 for the newest, as abci_query does.
func (c *Chain) Query(n state.View, path string, data []byte, height int64) Answer {
	now := n.Now()
	of := slices.IndexFunc(services, func(s service) bool { return s.method == path })
	recorded, known := documents()[path]
	if height == 0 {
		height = now.Height
	}
	code, name, text := now.Unreadable(height)
	switch {
	case of < 0 && !known && height >= 0:
		service, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		return Answer{Code: 6, Codespace: "sdk", Log: "unknown query path: unknown request", Status: 12, Message: "unknown service " + service}
	case code != 0:
		return Answer{Code: code, Codespace: "sdk", Log: text + ": " + name, Status: codes.Unknown, Message: fmt.Sprintf("codespace sdk code %d: %s: %s", code, name, text)}
	case known:
		value, _ := base64.StdEncoding.DecodeString(recorded)
		return Answer{Value: value, Height: height}
	}
	s := &services[of]
	q := &query{chain: c, node: n, now: now, path: s.pattern, args: map[string]string{"pagination.limit": "1000"}}
	for i, name := range strings.Fields(s.request) {
		argument, _ := protofield.Bytes(data, protowire.Number(i+1))
		q.args[name] = string(argument)
	}
	q.at(height)
	body, err := routeOf(s.pattern).serve(q)
	if err != nil {
		return refused(state.Failed(err), height)
	}
	return Answer{Value: message(s.answer, gjson.Parse(body)), Height: height}
}

func refused(f *state.Failure, height int64) Answer {
	a := Answer{Code: 18, Codespace: "sdk", Log: f.Text + ": invalid request", Height: height, Status: f.Code, Message: f.Text}
	if e, known := abciErrors[f.Code]; known {
		a.Code, a.Log = e.code, f.RPC()+": "+e.suffix
	}
	return a
}

// routeOf is the route with a pattern.
func routeOf(pattern string) *route {
	return &routes[slices.IndexFunc(routes, func(r route) bool { return r.pattern == pattern })]
}

// wires are the messages of the gRPC services: the names of their fields in JSON, in the order
// of their numbers, each with its kind, which is text where it has none. "_" is a field that is
// left out. A list is a field whose value is one.
var wires = map[string]string{
	"Coin":       "denom amount",
	"Pool":       "not_bonded_tokens bonded_tokens",
	"TxResponse": "height:uint txhash codespace code:uint data raw_log _ info gas_wanted:uint gas_used:uint _ timestamp",

	"/cosmos.auth.v1beta1.BaseAccount":   "address pub_key:any account_number:uint sequence:uint",
	"/cosmos.auth.v1beta1.ModuleAccount": "base_account:/cosmos.auth.v1beta1.BaseAccount name permissions",
	"/cosmos.crypto.secp256k1.PubKey":    "key:bytes",
}

// message makes a message of JSON.
func message(fields string, from gjson.Result) (b []byte) {
	for i, field := range strings.Fields(fields) {
		name, kind, _ := strings.Cut(field, ":")
		values := []gjson.Result{from.Get(name)}
		if values[0].IsArray() {
			values = values[0].Array()
		}
		for _, value := range values {
			b = appendField(b, protowire.Number(i+1), kind, value)
		}
	}
	return b
}

// appendField adds a value, unless it is that of a field that is left out.
func appendField(b []byte, number protowire.Number, kind string, value gjson.Result) []byte {
	content := []byte(value.String())
	switch kind {
	case "":
	case "uint":
		if value.Uint() == 0 {
			return b
		}
		return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), value.Uint())
	case "bytes":
		content, _ = base64.StdEncoding.DecodeString(value.String())
	case "any":
		name := value.Get("@type").String()
		content = appendText(appendText(nil, 1, []byte(name)), 2, message(wires[name], value))
	default:
		content = message(wires[kind], value)
	}
	return appendText(b, number, content)
}

// appendText adds bytes, unless there are none.
func appendText(b []byte, number protowire.Number, content []byte) []byte {
	if len(content) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), content)
}
