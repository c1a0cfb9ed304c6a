package cosmos

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// A service is a method of a gRPC service, which abci_query calls. Its answer is that of the
// REST API, as a message.
type service struct {
	method  string
	pattern string // of its route
	request string // names of the fields, in the order of their numbers; pagination is a message
	answer  string // its fields, as in wires
}

// services are the methods that can be called.
var services = []service{
	{"/cosmos.auth.v1beta1.Query/Account", auth + "/accounts/{address}", "address", "account:any"},
	{"/cosmos.bank.v1beta1.Query/Balance", bank + "/balances/{address}/by_denom", "address denom", "balance:Coin"},
	{"/cosmos.bank.v1beta1.Query/AllBalances", bank + "/balances/{address}", "address pagination", "balances:Coin pagination:Page"},
	{"/cosmos.staking.v1beta1.Query/Validators", staking + "/validators", "status pagination", "validators:Validator pagination:Page"},
	{"/cosmos.staking.v1beta1.Query/Delegation", staking + "/validators/{validator_addr}/delegations/{delegator_addr}", "delegator_addr validator_addr", "delegation_response:Delegated"},
	{"/cosmos.staking.v1beta1.Query/DelegatorDelegations", staking + "/delegations/{delegator_addr}", "delegator_addr pagination", "delegation_responses:Delegated pagination:Page"},
	{"/cosmos.staking.v1beta1.Query/Pool", staking + "/pool", "", "pool:Pool"},
	{"/cosmos.staking.v1beta1.Query/Params", staking + "/params", "", "params:StakingParams"},
	{"/cosmos.tx.v1beta1.Service/GetTx", transactions + "/txs/{hash}", "hash", "_ tx_response:TxResponse"},
	{"/cosmos.tx.v1beta1.Service/Simulate", transactions + "/simulate", "_ tx_bytes", "gas_info:GasInfo result:Result"},
}

// An Answer is what abci_query says, and gRPC in its place.
type Answer struct {
	Value     []byte
	Status    int    // of gRPC
	Message   string // of that
	Code      int
	Log       string
	Codespace string
	Height    int64 // 0 where no state was read
}

// abciErrors are the codes of abci_query for those of gRPC, with what the SDK adds to the text.
var abciErrors = map[int]struct {
	code         int
	name, suffix string
}{
	state.InvalidArgument: {18, "InvalidArgument", "invalid request"}, state.NotFound: {22, "NotFound", "key not found"}, state.Internal: {6, "Internal", "unknown request"},
}

// Query calls a method at a height, 0 for the newest, as abci_query does.
func (c *Chain) Query(n state.View, path string, data []byte, height int64) Answer {
	now := n.Now()
	service := serviceOf(path)
	if height == 0 {
		height = now.Height
	}
	code, name, text := now.Unreadable(height)
	switch {
	case service == nil && height >= 0:
		service, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		return Answer{Code: 6, Codespace: "sdk", Log: "unknown query path: unknown request", Status: 12, Message: "unknown service " + service}
	case code != 0:
		return Answer{Code: code, Codespace: "sdk", Log: text + ": " + name, Status: state.Unknown, Message: fmt.Sprintf("codespace sdk code %d: %s: %s", code, name, text)}
	}
	q := service.query(data)
	q.chain, q.node, q.now = c, n, now
	q.at(height)
	body, err := service.serve(q)
	if err != nil {
		return refused(state.Failed(err), height)
	}
	return Answer{Value: encode(service.answer, body), Height: height}
}

func refused(f *state.Failure, height int64) Answer {
	a := Answer{Code: 18, Codespace: "sdk", Log: f.Text + ": invalid request", Height: height, Status: f.Code, Message: f.Text}
	if e, known := abciErrors[f.Code]; known {
		a.Code, a.Log = e.code, fmt.Sprintf("rpc error: code = %s desc = %s: %s", e.name, f.Text, e.suffix)
	}
	return a
}

func serviceOf(path string) *service {
	for i := range services {
		if services[i].method == path {
			return &services[i]
		}
	}
	return nil
}

// query reads the message of a request.
func (s *service) query(data []byte) *query {
	q := &query{vars: map[string]string{}, args: map[string]string{}}
	given := fields(data)
	for i, name := range strings.Fields(s.request) {
		value := given[protowire.Number(i+1)]
		switch name {
		case "tx_bytes":
			q.posted.Bytes = value
		case "pagination":
			q.readPage(fields(value))
		default:
			q.args[name] = string(value)
			if strings.Contains(s.pattern, "{"+name+"}") {
				q.vars[name] = string(value)
			}
		}
	}
	return q
}

// readPage reads a message PageRequest.
func (q *query) readPage(page map[protowire.Number][]byte) {
	for i, name := range pageFields {
		value, given := page[protowire.Number(i+1)]
		n, _ := protowire.ConsumeVarint(value)
		switch {
		case !given:
		case name == "key":
			q.args["pagination.key"] = string(value)
		case i < 3:
			q.args["pagination."+name] = strconv.FormatUint(n, 10)
		default:
			q.args["pagination."+name] = strconv.FormatBool(n != 0)
		}
	}
}

// serve answers as the route does.
func (s *service) serve(q *query) (string, error) {
	if err := q.addresses(); err != nil {
		return "", err
	}
	for i := range routes {
		if r := &routes[i]; r.pattern == s.pattern {
			q.path = r.path(q)
			return r.serve(q)
		}
	}
	q.path = s.pattern
	return document(q)
}

// wires are the messages of the gRPC services: the names of their fields in JSON, in the order
// of their numbers, each with its kind, which is text where it has none. "_" is a field that is
// left out. A list is a field whose value is one.
var wires = map[string]string{
	"Page":          "next_key:bytes total:uint",
	"Coin":          "denom amount",
	"Pool":          "not_bonded_tokens bonded_tokens",
	"StakingParams": "unbonding_time:duration max_validators:uint max_entries:uint historical_entries:uint bond_denom min_commission_rate:decimal",
	"Validator": "operator_address consensus_pubkey:any jailed:bool status:status tokens delegator_shares:decimal description:Description " +
		"unbonding_height:uint unbonding_time:time commission:Commission min_self_delegation",
	"Description": "moniker identity website security_contact details",
	"Commission":  "commission_rates:Rates update_time:time",
	"Rates":       "rate:decimal max_rate:decimal max_change_rate:decimal",
	"Delegated":   "delegation:Delegation balance:Coin",
	"Delegation":  "delegator_address validator_address shares:decimal",
	"GasInfo":     "gas_wanted:uint gas_used:uint",
	"Result":      "data:bytes log",
	"TxResponse":  "height:uint txhash codespace code:uint data raw_log _ info gas_wanted:uint gas_used:uint _ timestamp",

	"/cosmos.auth.v1beta1.BaseAccount":   "address pub_key:any account_number:uint sequence:uint",
	"/cosmos.auth.v1beta1.ModuleAccount": "base_account:/cosmos.auth.v1beta1.BaseAccount name permissions",
	"/cosmos.crypto.secp256k1.PubKey":    "key:bytes",
	"/cosmos.crypto.ed25519.PubKey":      "key:bytes",
}

// encode makes a message of JSON.
func encode(fields, body string) []byte { return message(fields, gjson.Parse(body)) }

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
	content, whole := contentOf(kind, value)
	switch {
	case !value.Exists() || value.Type == gjson.Null:
		return b
	case content != nil:
		return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), content)
	case whole != 0:
		return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), whole)
	}
	return b
}

// contentOf is a value as its bytes, nil for none, or as a whole number.
func contentOf(kind string, value gjson.Result) (content []byte, whole uint64) {
	text := value.String()
	switch kind {
	case "":
		return nonEmpty([]byte(text)), 0
	case "bytes":
		content, _ = base64.StdEncoding.DecodeString(text)
		return nonEmpty(content), 0
	case "uint":
		whole, _ = strconv.ParseUint(text, 10, 64)
		return nil, whole
	case "bool":
		return nil, protowire.EncodeBool(value.Bool())
	case "status":
		return nil, map[string]uint64{"BOND_STATUS_UNBONDED": 1, "BOND_STATUS_UNBONDING": 2, "BOND_STATUS_BONDED": 3}[text]
	case "decimal": // in units of its last digit
		digits := strings.TrimLeft(strings.Replace(text, ".", "", 1), "0")
		return []byte(digits + strings.Repeat("0", max(0, 1-len(digits)))), 0
	case "duration":
		d, _ := time.ParseDuration(text)
		return seconds(int64(d / time.Second)), 0
	case "time":
		at, _ := time.Parse(time.RFC3339Nano, text)
		return seconds(at.Unix()), 0
	case "any":
		name := value.Get("@type").String()
		b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
		return protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), message(wires[name], value)), 0
	default:
		return append([]byte{}, message(wires[kind], value)...), 0
	}
}

// nonEmpty is nil for no bytes, which are left out.
func nonEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// seconds are a Timestamp or a Duration, as whole ones.
func seconds(n int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(n)) //nolint:gosec // not negative
}
