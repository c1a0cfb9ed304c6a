package cosmos

import (
	"errors"
	"fmt"

	"github.com/btcsuite/btcd/btcutil/bech32"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The prefixes of addresses.
const (
	accountPrefix   = "cosmos"
	validatorPrefix = "cosmosvaloper"
)

// maxBech32 is the maximum length of an address.
const maxBech32 = 1023

// decode reads an address. It must be in one case.
func decode(prefix, text string) (string, error) {
	if len(text) > maxBech32 {
		return "", fmt.Errorf("decoding bech32 failed: invalid bech32 string length %d", len(text))
	}
	hrp, groups, err := bech32.DecodeNoLimit(text)
	var sum bech32.ErrInvalidChecksum
	switch {
	case errors.As(err, &sum):
		return "", fmt.Errorf("decoding bech32 failed: invalid checksum (expected %s got %s)", sum.Expected, sum.Actual)
	case err != nil:
		return "", fmt.Errorf("decoding bech32 failed: %w", err)
	case hrp != prefix:
		return "", fmt.Errorf("codespace sdk code 35: internal logic error: hrp does not match bech32 prefix: expected '%s' got '%s'", prefix, hrp)
	}
	raw, err := bech32.ConvertBits(groups, 5, 8, false)
	if err != nil {
		return "", fmt.Errorf("decoding bech32 failed: %w", err)
	}
	return string(raw), nil
}

// fromBech32 reads a valid address.
func fromBech32(prefix, text string) string {
	raw, _ := decode(prefix, text)
	return raw
}

// addresses reads the delegator (or voter) and the validator in the path.
func (q *query) addresses() (err error) {
	for _, name := range []string{"delegator_addr", "delegator_address", "voter"} {
		if text, given := q.vars[name]; given {
			if q.Delegator, err = decode(accountPrefix, text); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"validator_addr", "validator_address"} {
		text, given := q.vars[name]
		switch {
		case given && text == "":
			return status.Error(codes.InvalidArgument, "validator address cannot be empty")
		case given:
			q.Operator, err = decode(validatorPrefix, text)
		}
	}
	return err
}

// holder reads the address of an account. Its errors have the bank module's texts.
func (q *query) holder() (string, error) {
	if q.args["address"] == "" {
		return "", status.Error(codes.InvalidArgument, "invalid address: empty address string is not allowed")
	}
	raw, err := decode(accountPrefix, q.args["address"])
	if err != nil {
		return "", status.Errorf(codes.InvalidArgument, "invalid address: %v", err)
	}
	return raw, nil
}
