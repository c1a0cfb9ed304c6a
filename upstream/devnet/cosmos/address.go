package cosmos

import (
	"errors"

	"github.com/btcsuite/btcd/btcutil/bech32"
)

// The prefixes of addresses.
const (
	accountPrefix   = "cosmos"
	validatorPrefix = "cosmosvaloper"
)

// Bech32 is the text of an address of any length.
func Bech32(prefix string, raw []byte) string {
	text, err := bech32.EncodeFromBase256(prefix, raw)
	if err != nil {
		return err.Error() // cannot happen: every byte string has a form
	}
	return text
}

// accountText is the address of an account.
func accountText(raw string) string { return Bech32(accountPrefix, []byte(raw)) }

// maxBech32 is the longest address.
const maxBech32 = 1023

// decode reads an address. Capitals are fine as long as all letters are.
func decode(prefix, text string) (string, error) {
	if len(text) > maxBech32 {
		return "", fail(unknown, "decoding bech32 failed: invalid bech32 string length %d", len(text))
	}
	hrp, groups, err := bech32.DecodeNoLimit(text)
	var sum bech32.ErrInvalidChecksum
	switch {
	case errors.As(err, &sum):
		return "", fail(unknown, "decoding bech32 failed: invalid checksum (expected %s got %s)", sum.Expected, sum.Actual)
	case err != nil:
		return "", fail(unknown, "decoding bech32 failed: %v", err)
	case hrp != prefix:
		return "", fail(unknown, "codespace sdk code 35: internal logic error: hrp does not match bech32 prefix: expected '%s' got '%s'", prefix, hrp)
	}
	raw, err := bech32.ConvertBits(groups, 5, 8, false)
	if err != nil {
		return "", fail(unknown, "decoding bech32 failed: %v", err)
	}
	return string(raw), nil
}

// mustDecode reads an address of the cast.
func mustDecode(prefix, text string) string {
	raw, err := decode(prefix, text)
	if err != nil {
		panic("cosmos: " + text + ": " + err.Error())
	}
	return raw
}

// prefixed is how an address stands in most page keys: its length, then its bytes.
func prefixed(raw string) string { return string(rune(len(raw))) + raw }

// addresses reads the delegator, or voter, and the validator that the path names.
func (q *query) addresses() (err error) {
	for _, name := range []string{"delegator_addr", "delegator_address", "voter"} {
		if text, given := q.vars[name]; given {
			if q.delegator, err = decode(accountPrefix, text); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"validator_addr", "validator_address"} {
		text, given := q.vars[name]
		switch {
		case given && text == "":
			return fail(invalidArgument, "validator address cannot be empty")
		case given:
			q.operator, err = decode(validatorPrefix, text)
		}
	}
	return err
}

// holder reads the address of an account in the words of the bank.
func (q *query) holder() (string, error) {
	if q.args["address"] == "" {
		return "", fail(invalidArgument, "invalid address: empty address string is not allowed")
	}
	raw, err := decode(accountPrefix, q.args["address"])
	if err != nil {
		return "", fail(invalidArgument, "invalid address: %v", err)
	}
	return raw, nil
}
