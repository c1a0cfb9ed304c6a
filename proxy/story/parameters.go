package story

import (
	"encoding/hex"
	"math/big"
	"net/http"
	"strconv"
	"strings"

	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
)

// parameters has the kinds of parameters, except page keys. A name means the same on all paths. Other names are
// texts, such as denom.
var parameters = map[string]dialect.Kind{
	"validator_addr": validatorAddress, "src_validator_addr": validatorAddress, "dst_validator_addr": validatorAddress,
	"delegator_addr": accountAddress, "delegator_address": accountAddress, "address": accountAddress,
	"height": number, "starting_height": number, "ending_height": number, "round": number32, "uuid": number32, "id": digits,
	"pubkey": publicKey, "requester_pub_key_hex": requesterKey, "code_commitment_hex": ignored, "status": bondStatus,
	dialect.PageOffset: number, dialect.PageLimit: number, dialect.PageCountTotal: pageFlag, dialect.PageReverse: pageFlag,
}

// field is the [dialect.Lookup] of the documented shape.
func (rt Route) field(word string, _ bool) (f dialect.Field, err error) {
	name, kind, _ := strings.Cut(word, ":")
	f.Name, f.Kind = name, anyText
	known, ok := parameters[name]
	switch {
	case name == dialect.PageKey && rt.page != nil:
		f.Kind = dialect.Kind{Expects: "the next_key of the page before", Read: rt.page.read}
	case kind == "uint64":
		f.Kind = number
	case kind == "address":
		f.Kind = accountAddress
	case kind == "" && ok:
		f.Kind = known
	}
	return f, nil
}

// sentField is the [dialect.Lookup] of the node's shape, in which values are sent to the node unchanged.
func sentField(word string, inPath bool) (dialect.Field, error) {
	kind := anyText
	if inPath {
		kind.Read = readSent
	}
	kind.Keep = true
	name, _, _ := strings.Cut(word, ":")
	return dialect.Field{Name: name, Kind: kind}, nil
}

// The kinds. Both kinds of address are the same 20 bytes. A bech32 address of the wrong kind is refused.
var (
	validatorAddress = dialect.Kind{Expects: "0x and 40 hex digits, or a storyvaloper1... address", Read: addressOf("storyvaloper")}
	accountAddress   = dialect.Kind{Expects: "0x and 40 hex digits, or a story1... address", Read: addressOf("story")}
	publicKey        = dialect.Kind{Expects: "0x and 66 hex digits, a compressed public key of secp256k1", Read: readPublicKey}
	number           = dialect.Kind{Expects: "an unsigned integer", Zero: "0", Read: unsigned(64)}
	number32         = dialect.Kind{Expects: "an unsigned integer of 32 bits", Zero: "0", Read: unsigned(32)}
	requesterKey     = dialect.Kind{Expects: "130 hex digits, an uncompressed public key", Read: readRequesterKey}
	ignored          = dialect.Kind{Expects: "any text", Read: func(string) (string, bool) { return "", true }}
	digits           = dialect.Kind{Expects: "decimal digits", Read: readDigits}
	anyText          = dialect.Kind{Expects: "a text of at most 256 bytes", Read: readText}
	bondStatus       = dialect.Kind{Expects: "1, 2 or 3, unbonded, unbonding or bonded, or the node's BOND_STATUS_...", Read: readStatus}
)

// addressOf reads addresses: hex in any case, or bech32 with the prefix.
func addressOf(prefix string) func(string) (string, bool) {
	return func(value string) (string, bool) {
		if isHex(value, 20) {
			return strings.ToLower(value), true
		}
		hrp, groups, version, err := bech32.DecodeGeneric(value)
		if err != nil || hrp != prefix || version != bech32.Version0 {
			return "", false
		}
		raw, err := bech32.ConvertBits(groups, 5, 8, false)
		return "0x" + hex.EncodeToString(raw), err == nil && len(raw) == 20
	}
}

// readPublicKey reads a compressed point of the curve secp256k1. For any other point the node returns an error that
// does not show whether the input or the node is at fault.
func readPublicKey(value string) (string, bool) {
	if !isHex(value, 33) || value[2] != '0' || value[3] != '2' && value[3] != '3' {
		return "", false
	}
	x, ok := new(big.Int).SetString(value[4:], 16)
	return strings.ToLower(value), ok && isOnCurve(x)
}

// fieldPrime is the order of the field of secp256k1.
var fieldPrime, _ = new(big.Int).SetString("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f", 16)

// isOnCurve reports whether a point of secp256k1, y*y = x*x*x + 7, has the coordinate x.
func isOnCurve(x *big.Int) bool {
	y2 := new(big.Int).Exp(x, big.NewInt(3), fieldPrime)
	return x.Cmp(fieldPrime) < 0 && big.Jacobi(y2.Add(y2, big.NewInt(7)), fieldPrime) == 1
}

// unsigned reads integers with a number of bits. 0 means the same as no value.
func unsigned(bits int) func(string) (string, bool) {
	return func(value string) (string, bool) {
		_, err := strconv.ParseUint(value, 10, bits)
		return strings.TrimLeft(value, "0"), err == nil
	}
}

// readRequesterKey reads a key with or without 0x, as the node does.
func readRequesterKey(value string) (string, bool) {
	if len(value) == 2*requesterKeyLen {
		value = "0x" + value
	}
	if !isHex(value, requesterKeyLen) {
		return "", false
	}
	return strings.ToLower(value[2:]), true
}

// requesterKeyLen is the length of an uncompressed secp256k1 key, in bytes.
const requesterKeyLen = 65

// readDigits keeps leading zeros: the node orders and finds ids as texts.
func readDigits(value string) (string, bool) {
	return value, len(value) <= 20 && allDigits(value)
}

// maxText is the maximum length of a text in a key, in bytes. No name is as long.
const maxText = 256

// readText reads any text of at most maxText bytes.
func readText(value string) (string, bool) { return value, len(value) <= maxText }

// readSent converts hex to lower case, as the node does with a segment of a path. Other texts stay unchanged.
func readSent(value string) (string, bool) {
	if n := len(value); n >= 2 && n%2 == 0 && isHex(value, n/2-1) {
		return strings.ToLower(value), n <= maxHex
	}
	return readText(value)
}

// nodeHeight returns the height to read at, as the node reads the header.
func nodeHeight(h http.Header) (int64, error) {
	values := h[respond.HeightHeader]
	if len(values) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	switch {
	case err != nil:
		return 0, nil //nolint:nilerr // the node ignores a height that is not a number
	case n < 0:
		return 0, &failure.Failure{Status: http.StatusInternalServerError, Expected: true, NullMsg: true, Public: "failed to create query context: cannot query with height < 0; please provide a valid height: invalid request"}
	}
	return n, nil
}

// maxHex is the maximum length of a hex text in a path: an address of 256 bytes, one more than a node accepts, so that clients
// get the node's error.
const maxHex = 2 + 2*256

func readStatus(value string) (string, bool) {
	switch strings.TrimPrefix(strings.ToUpper(value), "BOND_STATUS_") {
	case "1", "UNBONDED":
		return "BOND_STATUS_UNBONDED", true
	case "2", "UNBONDING":
		return "BOND_STATUS_UNBONDING", true
	case "3", "BONDED":
		return "BOND_STATUS_BONDED", true
	}
	return "", false
}

// isHex reports whether the text is 0x or 0X, followed by size bytes in hex.
func isHex(s string, size int) bool {
	return len(s) == 2+2*size && s[0] == '0' && s[1]|0x20 == 'x' && strings.Trim(s[2:], "0123456789abcdefABCDEF") == ""
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
