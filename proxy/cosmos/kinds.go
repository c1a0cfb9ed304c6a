package cosmos

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/tipcache/tipcache/proxy/dialect"
)

// kinds are all kinds by name. They read values like the node's gateway. A value that the node would refuse, or whose meaning is
// uncertain, is not ok.
var kinds = map[string]dialect.Kind{
	"text": {Read: text}, "uint64": {Read: unsigned, Zero: "0"}, "int64": {Read: signed, Zero: "0"}, "bool": {Read: boolean},
	"bytes": {Read: data}, "address": {Read: address}, "hex": {Read: hexDigits}, "list": {Read: text, List: true, Keep: true},
	"enum": {Read: text, Keep: true}, // the node refuses an empty value
}

// fieldKinds are the kinds of fields by name. Other fields are text.
var fieldKinds = map[string]string{
	"proposal_id": "uint64", "code_id": "uint64", "group_id": "uint64", "account_id": "uint64", "sequence": "uint64",
	"starting_height": "uint64", "ending_height": "uint64", "page": "uint64", "limit": "uint64", "offset": "uint64",
	"height": "int64", "last_height": "int64",
	"resolve_denom": "bool", "prove": "bool", "count_total": "bool", "reverse": "bool",
	"data": "bytes", "key": "bytes", "query_data": "bytes", "address_bytes": "bytes",
	dialect.PageKey: "bytes", dialect.PageOffset: "uint64", dialect.PageLimit: "uint64", dialect.PageCountTotal: "bool", dialect.PageReverse: "bool",
	"denoms": "list", "events": "list", "hash": "hex",
	"proposal_status": "enum", "order_by": "enum",
	"address": "address", "granter": "address", "grantee": "address", "owner": "address", "admin": "address", "voter": "address",
	"depositor": "address", "recipient": "address", "creator_address": "address", "cons_address": "address",
	"validator_addr": "address", "validator_address": "address", "src_validator_addr": "address", "dst_validator_addr": "address",
	"delegator_addr": "address", "delegator_address": "address",
}

// fieldOf returns the field of name or name:kind. Without a kind, the name decides it.
func fieldOf(word string, _ bool) (dialect.Field, error) {
	name, written, _ := strings.Cut(word, ":")
	typ := cmp.Or(written, fieldKinds[name], "text")
	kind, known := kinds[typ]
	if !known {
		return dialect.Field{}, fmt.Errorf("the kind %q of %s is unknown", typ, name)
	}
	return dialect.Field{Name: name, Alias: camel(name), Kind: kind}, nil
}

// camel returns the JSON name of a proto name.
func camel(name string) string {
	parts := strings.Split(name, "_")
	for i, part := range parts[1:] {
		if part != "" {
			parts[i+1] = strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return strings.Join(parts, "")
}

func text(value string) (string, bool) { return value, true }

// unsigned reads an integer in any base of Go, so "010" is 8. 0 means the same as no value.
func unsigned(value string) (string, bool) {
	n, err := strconv.ParseUint(value, 0, 64)
	return strings.TrimPrefix(strconv.FormatUint(n, 10), "0"), err == nil
}

func signed(value string) (string, bool) {
	n, err := strconv.ParseInt(value, 0, 64)
	return strings.TrimPrefix(strconv.FormatInt(n, 10), "0"), err == nil
}

func boolean(value string) (string, bool) {
	b, err := strconv.ParseBool(value)
	if err != nil || !b {
		return "", err == nil
	}
	return "true", true
}

// data reads bytes in padded base64 of either alphabet. The result has the URL alphabet, which can also be part of a path.
func data(value string) (string, bool) {
	raw, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		raw, err = base64.URLEncoding.DecodeString(value)
	}
	return base64.URLEncoding.EncodeToString(raw), err == nil
}

// address returns a bech32 address in lower case. Other values are unchanged, because the node's error may quote them.
func address(value string) (string, bool) {
	if value == strings.ToUpper(value) && value != strings.ToLower(value) {
		if _, _, err := bech32.DecodeNoLimit(value); err == nil {
			return strings.ToLower(value), true
		}
	}
	return value, true
}

// hexDigits returns the hash of a transaction in upper case. Other values are unchanged.
func hexDigits(value string) (string, bool) {
	if _, err := hex.DecodeString(value); err != nil {
		return value, true
	}
	return strings.ToUpper(value), true
}
