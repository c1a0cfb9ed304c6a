package devnet

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/ripemd160" //nolint:staticcheck // CometBFT's addresses are made with it

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// denom is the name of the token.
const denom = "stake"

// What some handlers say as it is, and others as an error of a query service.
var (
	errNoTuple     = errors.New("no delegation for (address, validator) tuple")
	errNoValidator = errors.New("validator does not exist")
	errNoPeriod    = errors.New("period delegation does not exist")
)

// internal is an error as a query service of the chain wraps it.
func internal(err error) error { return fmt.Errorf("rpc error: code = Internal desc = %w", err) }

// noneFor is the error where the delegator and the validator of the path have
// nothing of a kind.
func (q *query) noneFor(what string) error {
	return fmt.Errorf("rpc error: code = NotFound desc = %s with delegator %s not found for validator %s",
		what, cosmos.Bech32(accountPrefix, q.delegator), cosmos.Bech32(validatorPrefix, q.operator))
}

// unless answers where there is no failure.
func unless(failed func(*query) error, serve answer) answer {
	return func(q *query) error {
		if err := failed(q); err != nil {
			return err
		}
		return serve(q)
	}
}

// The failures of paths.
func badDenom(q *query) error {
	if !cosmos.ValidDenom.MatchString(q.request.Denom) {
		return fmt.Errorf("rpc error: code = InvalidArgument desc = invalid denom: %s", q.request.Denom)
	}
	return nil
}

func noValidator(q *query) error {
	if q.validator == nil {
		return errNoValidator
	}
	return nil
}

func notFound(q *query) error {
	if q.validator == nil {
		return fmt.Errorf("rpc error: code = NotFound desc = validator %s not found", cosmos.Bech32(validatorPrefix, q.operator))
	}
	return nil
}

func noStake(q *query) error {
	if q.stake == nil {
		return q.noneFor("delegation")
	}
	return nil
}

func noTuple(q *query) error {
	if q.stake == nil {
		return internal(errNoTuple)
	}
	return nil
}

func noReward(q *query) error {
	switch {
	case q.validator == nil:
		return errNoValidator
	case q.stake == nil:
		return errNoTuple
	}
	return nil
}

func noUnbonding(q *query) error {
	found := q.found(recorded().Unbondings, q.delegator, q.operator)
	if len(found) == 0 {
		return q.noneFor("unbonding delegation")
	}
	q.about = found[0]
	return nil
}

func noLot(q *query) error {
	for _, q.about = range lots(q) {
		if q.lot.ID == q.http.PathValue("id") {
			return nil
		}
	}
	return internal(errNoPeriod)
}

// rememberedHistory is the parameter historical_entries.
const rememberedHistory = 10_000

func noHistory(q *query) (err error) {
	q.number, err = strconv.ParseInt(q.http.PathValue("height"), 10, 64)
	switch {
	case err != nil:
		return err
	case q.number < 0:
		return errors.New("rpc error: code = InvalidArgument desc = height cannot be negative")
	case q.number == 0 || q.number > q.height || q.number <= q.height-rememberedHistory:
		return fmt.Errorf("rpc error: code = NotFound desc = historical info for height %d not found", q.number)
	}
	return nil
}

// addressOr answers with an address that a delegator may set, as a member with a
// name. Only the first sample delegator has set one. The answer for others is
// their own address, if own, or empty.
func addressOr(own bool, name, set string) answer {
	return func(q *query) error {
		known := q.accounts[string(q.delegator)] != nil
		switch {
		case known && set != "" && address(q.delegator) == q.first:
			q.text(fmt.Sprintf(`{%q:%q}`, name, set))
		case known && own:
			q.text(fmt.Sprintf(`{%q:%q}`, name, address(q.delegator).checksum()))
		default:
			q.text("{}")
		}
		return nil
	}
}

// What answers that are put together have of their items.
var (
	validatorItem   = says(validatorMessage)
	recordItem      = says("{record}")
	rewardItem      = says(`{"validator_address":"{bech32}","reward":{reward}}`)
	rewardedItem    = says(`"{operator}"`)
	commissionField = says(`,"commission":{commission}}`)
)

// delegatorRewards answers with what a delegator has earned at each validator.
func delegatorRewards(q *query) error {
	stakes, total := stakesOf(q), uint64(0)
	if len(stakes) == 0 {
		q.text(`{"rewards":null,"total":[]}`)
		return nil
	}
	q.text(`{"rewards":`)
	q.list(stakes, "", rewardItem)
	for _, s := range stakes {
		total += q.reward(s.validator, s.stake)
	}
	q.text(`,"total":`, coins(total), "}")
	return nil
}

// rewardedValidators answers with the addresses of a delegator's validators.
func rewardedValidators(q *query) error {
	if len(stakesOf(q)) == 0 {
		q.text("{}")
		return nil
	}
	q.text(`{"validators":`)
	q.list(stakesOf(q), "", rewardedItem)
	q.text("}")
	return nil
}

// validatorEarnings answers with what a validator has earned for itself.
func validatorEarnings(q *query) error {
	self := uint64(0)
	if k := q.validator.find(q.validator.Operator[:]); k != nil {
		self = q.reward(q.validator, k)
	}
	q.text(`{"operator_address":"`, q.validator.Operator, `","self_bond_rewards":`, coins(self))
	return commissionField(q)
}

// delegatorSum answers with what a delegator has at all validators.
func delegatorSum(name string) answer {
	return func(q *query) error {
		var sum uint64
		for _, s := range stakesOf(q) {
			sum += q.tokens(s.validator, s.stake)
		}
		q.text(fmt.Sprintf(`{"%s":"%d.000000000000000000"}`, name, sum))
		return nil
	}
}

// signingInfo answers with how well a validator signs. It is named by its
// public key, in hex.
func signingInfo(q *query) error {
	pubKey, err := parseHex(q.http.PathValue("key"))
	if err != nil {
		return err
	}
	if len(pubKey) != 33 {
		return fmt.Errorf("invalid public key length: got %d, expected 33", len(pubKey))
	}
	name := cosmos.Bech32(consensusPrefix, consensusAddress(pubKey))
	at := slices.IndexFunc(q.validators, func(v *validator) bool { return string(v.PubKey) == string(pubKey) && v.Status != unbonded })
	if at < 0 {
		return fmt.Errorf("rpc error: code = NotFound desc = SigningInfo not found for validator %s", name)
	}
	info := q.validators[at].Signing
	if info == "" {
		info = fmt.Sprintf(`"index_offset":"%d","jailed_until":%q`, q.height-1, stamp(epoch))
	}
	q.text(fmt.Sprintf(`{"val_signing_info":{"address":%q,%s}}`, name, info))
	return nil
}

// consensusAddress is how CometBFT names the holder of a compressed public key.
func consensusAddress(pubKey []byte) []byte {
	inner := sha256.Sum256(pubKey)
	outer := ripemd160.New()
	outer.Write(inner[:])
	return outer.Sum(nil)
}

// moduleVersions answers with one version or all.
func moduleVersions(q *query) error {
	name := q.request.ModuleName
	found := slices.DeleteFunc(slices.Clone(recorded().Modules), func(m json.RawMessage) bool { return name != "" && !strings.HasPrefix(string(m), `{"name":"`+name+`"`) })
	if len(found) == 0 {
		return fmt.Errorf("x/upgrade: QueryModuleVersions module %s not found: module version not found", name)
	}
	q.text(`{"module_versions":[`, joined(found, func(m json.RawMessage) string { return string(m) }), "]}")
	return nil
}

// recordedFile has what is the same at every height, in the words of a real node.
//
//go:embed recorded.json
var recordedFile []byte

var recorded = sync.OnceValue(func() (r struct {
	Answers       map[string]json.RawMessage // messages by the pattern of the path
	History       json.RawMessage            // the historical info of the {number}
	Modules       []json.RawMessage          // of the node's program
	Unbondings    []record                   // by delegator and validator
	Redelegations []record                   // by both validators
}) {
	if err := json.Unmarshal(recordedFile, &r); err != nil {
		panic("devnet: recorded.json: " + err.Error())
	}
	return r
})

func base64Text(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
