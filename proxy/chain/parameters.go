package chain

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/tipcache/tipcache/proxy/chain/documented"
	"github.com/tipcache/tipcache/proxy/web"
)

// A parameter is a name in a path or query and how its value is read.
type parameter struct {
	name string
	paramType
}

// A paramType reads the values of one type of parameter.
type paramType struct {
	// expects completes "expected ...".
	expects string
	// values are those that one should write: more is understood.
	values documented.Schema
	// canonical appends the value as it stands in the key and goes to the node,
	// percent-encoded; false if it is malformed.
	canonical func(dst []byte, value string) ([]byte, bool)
}

// parameters gives every parameter but pagination.* its type and its meaning: a name
// means the same wherever it stands.
var parameters = map[string]struct {
	paramType
	doc string
}{
	"validator_addr":     {validatorAddress, "Address of the validator: hex, or bech32 with `storyvaloper`."},
	"src_validator_addr": {validatorAddress, "Address of the validator that the stake has left."},
	"dst_validator_addr": {validatorAddress, "Address of the validator that the stake has gone to."},
	"delegator_addr":     {accountAddress, "Address of the delegator: hex, or bech32 with `story`."},
	"delegator_address":  {accountAddress, "Address of the delegator: hex, or bech32 with `story`."},
	"address":            {accountAddress, "Address of the account: hex, or bech32 with `story`."},
	"pubkey":             {publicKey, "Compressed secp256k1 public key of the validator: `0x` and 66 hex digits."},
	"height":             {number, "Height of the block."},
	"starting_height":    {number, "Height of the first block."},
	"ending_height":      {number, "Height of the last block."},
	"id":                 {digits, "Id of the period delegation. Leading zeros count."},
	"denom":              {anyText, "The denomination, such as `stake`."},
	"module_name":        {anyText, "Name of the module."},
	"name":               {anyText, "Name of the upgrade."},
	"status":             {bondStatus, "Only validators of this status. Case does not matter."},
}

// Describe says what a parameter means, and which values it takes.
func Describe(name string) (doc string, values *documented.Schema) {
	p := parameters[name]
	return p.doc, &p.values
}

// typeOf is the type of a parameter: sent in the node's shape, whose values go to the
// node as they came.
func (h *Handler) typeOf(name string, sent paramType) paramType {
	if h.asSent {
		return sent
	}
	return parameters[name].paramType
}

// Both kinds of address are the same 20 bytes. A bech32 address says which of
// the two it is, and one that says the wrong one is refused, not reinterpreted.
var (
	validatorAddress = paramType{"0x and 40 hex digits, or a storyvaloper1... address", addressSchema("storyvaloper"), addressOf("storyvaloper")}
	accountAddress   = paramType{"0x and 40 hex digits, or a story1... address", addressSchema("story"), addressOf("story")}
	publicKey        = paramType{"0x and 66 hex digits, a compressed public key", textSchema("^0[xX]0[23][0-9a-fA-F]{64}$", ""), appendPublicKey}
	number           = paramType{"an unsigned integer", textSchema("^[0-9]{1,19}$", "uint64"), appendNumber}
	digits           = paramType{"decimal digits", textSchema("^[0-9]{1,20}$", ""), appendDigits}
	anyText          = paramType{"a text of at most 256 bytes", textSchema("", ""), appendText}
	sentSegment      = paramType{anyText.expects, anyText.values, appendSent}
	bondStatus       = paramType{"1, 2 or 3, unbonded, unbonding or bonded, or the node's BOND_STATUS_...", documented.Schema{
		Kind: documented.StringKind, Values: []string{"1", "2", "3", "unbonded", "unbonding", "bonded", "BOND_STATUS_UNBONDED", "BOND_STATUS_UNBONDING", "BOND_STATUS_BONDED"},
	}, appendStatus}
)

func textSchema(pattern, format string) documented.Schema {
	return documented.Schema{Kind: documented.StringKind, Pattern: pattern, Format: format}
}

func addressSchema(prefix string) documented.Schema {
	return textSchema("^(0[xX][0-9a-fA-F]{40}|"+prefix+"1[02-9ac-hj-np-z]{38})$", "")
}

// addressOf reads addresses: hex in any case, or bech32 with the prefix.
func addressOf(prefix string) func([]byte, string) ([]byte, bool) {
	return func(dst []byte, value string) ([]byte, bool) {
		if isHex(value, 20) {
			return appendLower(dst, value), true
		}
		hrp, groups, version, err := bech32.DecodeGeneric(value)
		if err != nil || hrp != prefix || version != bech32.Version0 {
			return dst, false
		}
		raw, err := bech32.ConvertBits(groups, 5, 8, false)
		return hex.AppendEncode(append(dst, "0x"...), raw), err == nil && len(raw) == 20
	}
}

func appendPublicKey(dst []byte, value string) ([]byte, bool) {
	if !isHex(value, 33) || value[2] != '0' || value[3] != '2' && value[3] != '3' {
		return dst, false
	}
	return appendLower(dst, value), true
}

func appendNumber(dst []byte, value string) ([]byte, bool) {
	n, err := strconv.ParseUint(value, 10, 64)
	return strconv.AppendUint(dst, n, 10), err == nil
}

// appendDigits keeps leading zeros: the node orders and finds ids as texts.
func appendDigits(dst []byte, value string) ([]byte, bool) {
	return append(dst, value...), len(value) <= 20 && allDigits(value)
}

// maxText bounds what a client may put of its own into a key, in bytes: no name
// is as long.
const maxText = 256

// appendText takes any text.
func appendText(dst []byte, value string) ([]byte, bool) {
	return AppendEscaped(dst, value, Unreserved), len(value) <= maxText
}

// appendSent escapes a segment of a path and spells hex in lower case, which is all
// the node does with it.
func appendSent(dst []byte, value string) ([]byte, bool) {
	if n := len(value); n >= 2 && n%2 == 0 && isHex(value, n/2-1) {
		return appendLower(dst, value), n <= maxHex
	}
	return appendText(dst, value)
}

// maxHex is the length of an address that a node just refuses, of 256 bytes.
const maxHex = 2 + 2*256

func appendStatus(dst []byte, value string) ([]byte, bool) {
	switch strings.TrimPrefix(strings.ToUpper(value), "BOND_STATUS_") {
	case "1", "UNBONDED":
		return append(dst, "BOND_STATUS_UNBONDED"...), true
	case "2", "UNBONDING":
		return append(dst, "BOND_STATUS_UNBONDING"...), true
	case "3", "BONDED":
		return append(dst, "BOND_STATUS_BONDED"...), true
	}
	return dst, false
}

// isHex says whether the text is 0x or 0X and so many bytes in hex.
func isHex(s string, bytes int) bool {
	if len(s) != 2+2*bytes || s[0] != '0' || s[1] != 'x' && s[1] != 'X' {
		return false
	}
	for _, c := range []byte(s[2:]) {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return false
		}
	}
	return true
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// appendLower appends ASCII in lower case.
func appendLower(dst []byte, s string) []byte {
	for _, c := range []byte(s) {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}

// malformed names the parameter, shows the beginning of its value and says what
// is expected.
func malformed(name, value, expects string) error {
	return web.BadInput("%s is %q; expected %s", name, web.Short(value), expects)
}
