package cosmos

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protowire"
)

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
