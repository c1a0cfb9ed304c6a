package cosmos

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/btcsuite/btcd/btcutil/bech32"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// sent returns how many transactions of an account are in blocks.
func (q *query) sent(a *account) int64 {
	sum, _ := q.chain.mempool.sums(a.raw, q.Query.Height)
	return sum + a.sequence + int64(q.Query.AddedTo(a.raw)) //nolint:gosec // it is small
}

// balance returns the balance of one coin of an account.
func (q *query) balance(a *account, c coin) int64 {
	if c.Denom != "stake" {
		return c.Amount
	}
	_, sum := q.chain.mempool.sums(a.raw, q.Query.Height)
	return c.Amount + sum - int64(q.Query.AddedTo(a.raw))*(step+fee) //nolint:gosec // it is small
}

// amount returns the balance of a denomination. The account may be nil.
func (q *query) amount(a *account, denom string) int64 {
	if a != nil {
		for _, c := range a.coins {
			if c.Denom == denom {
				return q.balance(a, c)
			}
		}
	}
	return 0
}

// accountJSON renders an account of auth.
func (q *query) accountJSON(a *account) string {
	if document, ok := documents()["account/"+q.Query.Chain.Words.Account(a.raw)]; ok {
		return document[len(`{"account":`) : len(document)-1]
	}
	return `{"@type":"/cosmos.auth.v1beta1.BaseAccount",` + q.accountInfo(a)[1:]
}

// accountInfo renders the fields that all kinds of accounts have.
func (q *query) accountInfo(a *account) string {
	sequence, key := q.sent(a), "null"
	if sequence > 0 {
		d := state.Digest(q.Query.Chain.Seed, "key"+a.raw, 0)
		key = fmt.Sprintf(`{"@type":"/cosmos.crypto.secp256k1.PubKey","key":%q}`, state.Base64(append([]byte{2}, d[:]...)))
	}
	return fmt.Sprintf(`{"address":%q,"pub_key":%s,"account_number":"%d","sequence":"%d"}`, q.Query.Chain.Words.Account(a.raw), key, a.number, sequence)
}

func accounts(q *query) (string, error) {
	return state.List(&q.Query, "accounts", q.chain.accounts, func(a *account) string { return a.raw }, q.accountJSON)
}

// ofAccount returns a handler for the account in the path.
func ofAccount(name string, render func(*query, *account) string) handler {
	return func(q *query) (string, error) {
		raw, err := decode(accountPrefix, q.args["address"])
		if err != nil {
			return "", err
		}
		a := q.chain.byAddress[raw]
		if a == nil {
			return "", status.Errorf(codes.NotFound, "account %s not found", q.args["address"])
		}
		return fmt.Sprintf(`{%q:%s}`, name, render(q, a)), nil
	}
}

func bech32Of(q *query) (string, error) {
	return fmt.Sprintf(`{"address_string":%q}`, q.Query.Chain.Words.Account(q.args["address_bytes"])), nil
}

func coinJSON(denom string, amount int64) string {
	return fmt.Sprintf(`{"denom":%q,"amount":"%d"}`, denom, amount)
}

// balances serves balances and spendable balances.
func balances(q *query) (string, error) {
	raw, err := q.holder()
	if err != nil {
		return "", err
	}
	if q.Query.Key != "" && q.Query.Offset > 0 {
		return "", status.Errorf(codes.InvalidArgument, "paginate: %s", state.Both)
	}
	a := q.chain.byAddress[raw]
	if a == nil {
		a = &account{}
	}
	return state.List(&q.Query, "balances", a.coins, func(c coin) string { return c.Denom }, func(c coin) string {
		denom := c.Denom
		if denom == ibcDenom && q.args["resolve_denom"] == "true" {
			denom = "transfer/channel-0/uatom"
		}
		return coinJSON(denom, q.balance(a, c))
	})
}

// validDenom matches valid denominations of the bank module.
var validDenom = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9/:._-]{2,127}$`)

func balanceByDenom(q *query) (string, error) {
	raw, err := q.holder()
	if err != nil {
		return "", err
	}
	denom := q.args["denom"]
	if !validDenom.MatchString(denom) {
		return "", status.Errorf(codes.InvalidArgument, "invalid denom: %s", denom)
	}
	return `{"balance":` + coinJSON(denom, q.amount(q.chain.byAddress[raw], denom)) + `}`, nil
}

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
			if q.Query.Delegator, err = decode(accountPrefix, text); err != nil {
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
			q.Query.Operator, err = decode(validatorPrefix, text)
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
