package state

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/btcsuite/btcd/btcutil/bech32"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A View is what a REST API needs of its node.
type View interface {
	Now() Clock
	Forks(height int64) int64                                // number of rollbacks to below this height
	Block(height int64) (at time.Time, hash, appHash []byte) // as in its header; hashes have 32 bytes
}

// A Clock holds the heights of a node.
type Clock struct {
	Height     int64 // the newest height that can be read
	Oldest     int64 // the oldest height that can be read
	Stored     int64 // CometBFT's newest block, for a moment above Height
	Restarted  bool  // no block has come since the node started
	Base64Keys bool  // Story: pagination.key is read as base64
}

// Unreadable returns the SDK's error for a height that cannot be read; its code is 0 if it can.
func (c Clock) Unreadable(height int64) (code int, name, text string) {
	switch {
	case height < 0:
		return 18, "invalid request", "cannot query with height < 0; please provide a valid height"
	case height > c.Height:
		return 26, "invalid height", "cannot query with height in the future; please provide a valid height"
	case height < c.Oldest:
		return 38, "not found", fmt.Sprintf("failed to load state at height %d; version mismatch on immutable IAVL tree; version does not exist. Version has either been pruned, or is for a future block height (latest height: %d)", height, c.Height)
	}
	return 0, "", ""
}

// Words are the notations of a dialect.
type Words struct {
	Account, Operator func(raw string) string // an address
	Prefixes          [2]string               // prefixes of accounts and validators in texts
	Delegation        string                  // item of a list, with ${names} for values
	Reward            string                  // likewise
	None              map[string]string       // JSON of empty lists that are not [], by name
	Pagination        func(next string, total uint64) string
}

// A Query is a request: the state it reads and its parameters.
type Query struct {
	State
	Page
	Status              string                   // filter of a list of validators
	Delegator, Operator string                   // raw addresses in the path
	Var                 func(name string) string // returns another parameter of path or query
}

// Value returns the value of a name in a recorded response.
func (q *Query) Value(name string) string {
	switch name {
	case "chain":
		return q.Chain.ID
	case "height":
		return fmt.Sprint(q.Height)
	case "age":
		return fmt.Sprint(q.Age())
	}
	return q.Var(name)
}

// A Handler answers a query.
type Handler func(*Query) (string, error)

// A Route is a path that both dialects have, relative to its module.
type Route struct {
	Module, Path string
	Params       string // query parameters
	Serve        Handler
}

// Routes are the paths whose responses change with the blocks.
var Routes = []Route{
	{"staking", "/pool", "", pool},
	{"staking", "/validators", "status pagination", validators},
	{"staking", "/validators/{validator_addr}", "", validatorOf},
	{"staking", "/validators/{validator_addr}/delegations", "pagination", validatorDelegations},
	{"staking", "/validators/{validator_addr}/delegations/{delegator_addr}", "", delegationOf},
	{"staking", "/delegations/{delegator_addr}", "pagination", delegations},
	{"staking", "/delegators/{delegator_addr}/validators", "pagination", delegatorValidators},
	{"staking", "/delegators/{delegator_addr}/validators/{validator_addr}", "", delegatorValidator},
	{"distribution", "/delegators/{delegator_address}/rewards", "", rewards},
	{"distribution", "/delegators/{delegator_address}/rewards/{validator_address}", "", rewardsAt},
	{"distribution", "/delegators/{delegator_address}/validators", "", rewardedValidators},
}

// Bech32 encodes an address of any length.
func Bech32(prefix, raw string) string {
	text, _ := bech32.EncodeFromBase256(prefix, []byte(raw)) // every byte string can be encoded
	return text
}

// key returns the address after its length, as in most page keys.
func (v *Validator) key() string { return string(rune(len(v.Raw))) + v.Raw }

// validator renders a validator.
func (q *Query) validator(v *Validator) string {
	return os.Expand(v.message, func(string) string { return fmt.Sprint(q.tokens(v)) })
}

// about returns a function that renders an item about a stake.
func (q *Query) about(item string) func(*Stake) string {
	return func(k *Stake) string {
		return os.Expand(item, func(name string) string {
			switch name {
			case "delegator":
				return k.Delegator
			case "validator":
				return k.Validator.Operator
			case "bech32":
				return Bech32(q.Chain.Words.Prefixes[1], k.Validator.Raw)
			case "reward":
				return q.reward(k)
			}
			return fmt.Sprint(q.amount(k))
		})
	}
}

// reward returns the rewards of a stake at an active validator, which grow with every block.
func (q *Query) reward(k *Stake) string {
	if k.Validator.Status != Bonded {
		return q.none("reward")
	}
	return fmt.Sprintf(`[{"denom":"stake","amount":"%d.000000000000000000"}]`, q.Age())
}

// none returns the JSON of a list without items.
func (q *Query) none(name string) string {
	if none, given := q.Chain.Words.None[name]; given {
		return none
	}
	return "[]"
}

// stake returns the delegation of the delegator to the validator, or nil.
func (q *Query) stake() *Stake {
	stakes := q.Chain.staked[q.Delegator]
	if i := slices.IndexFunc(stakes, func(k *Stake) bool { return k.Validator.Raw == q.Operator }); i >= 0 {
		return stakes[i]
	}
	return nil
}

// Delegation renders an item about the delegation of the delegator to the validator. ok is false if there is none.
func (q *Query) Delegation(item string) (text string, ok bool) {
	k := q.stake()
	if k == nil {
		return "", false
	}
	return q.about(item)(k), true
}

func operator(k *Stake) string { return k.Validator.key() }

// validators lists the validators that have the requested status.
func validators(q *Query) (string, error) {
	if q.Status != "" && !slices.Contains(bondStates[1:], q.Status) {
		return "", status.Errorf(codes.InvalidArgument, "invalid validator status %s", q.Status)
	}
	some := slices.DeleteFunc(slices.Clone(q.Chain.Validators), func(v *Validator) bool { return q.Status != "" && v.Status != q.Status })
	return List(q, "validators", some, (*Validator).key, q.validator)
}

func validatorOf(q *Query) (string, error) {
	v := q.Chain.operated[q.Operator]
	if v == nil {
		return "", status.Errorf(codes.NotFound, "validator %s not found", Bech32(q.Chain.Words.Prefixes[1], q.Operator))
	}
	return `{"validator":` + q.validator(v) + `}`, nil
}

func validatorDelegations(q *Query) (string, error) {
	var stakes []*Stake
	if v := q.Chain.operated[q.Operator]; v != nil {
		stakes = v.stakes
	}
	return List(q, "delegation_responses", stakes, func(k *Stake) string { return k.Raw }, q.about(q.Chain.Words.Delegation))
}

func delegations(q *Query) (string, error) {
	return List(q, "delegation_responses", q.Chain.staked[q.Delegator], operator, q.about(q.Chain.Words.Delegation))
}

func delegationOf(q *Query) (string, error) {
	text, ok := q.Delegation(q.Chain.Words.Delegation)
	if !ok {
		return "", status.Errorf(codes.NotFound, "delegation with delegator %s not found for validator %s", Bech32(q.Chain.Words.Prefixes[0], q.Delegator), Bech32(q.Chain.Words.Prefixes[1], q.Operator))
	}
	return `{"delegation_response":` + text + `}`, nil
}

func delegatorValidators(q *Query) (string, error) {
	return List(q, "validators", q.Chain.staked[q.Delegator], operator, func(k *Stake) string { return q.validator(k.Validator) })
}

func delegatorValidator(q *Query) (string, error) {
	k := q.stake()
	if k == nil {
		return "", status.Error(codes.Internal, "no delegation for (address, validator) tuple")
	}
	return `{"validator":` + q.validator(k.Validator) + `}`, nil
}

func pool(q *Query) (string, error) {
	bonded, not := q.Staked(Bonded)
	return fmt.Sprintf(`{"pool":{"not_bonded_tokens":"%d","bonded_tokens":"%d"}}`, not, bonded), nil
}

func rewards(q *Query) (string, error) {
	stakes := q.Chain.staked[q.Delegator]
	if len(stakes) == 0 {
		return `{"rewards":` + q.none("rewards") + `,"total":[]}`, nil
	}
	texts := make([]string, len(stakes))
	for i, k := range stakes {
		texts[i] = q.about(q.Chain.Words.Reward)(k)
	}
	return `{"rewards":[` + strings.Join(texts, ",") + `],"total":` + q.reward(stakes[0]) + "}", nil
}

func rewardsAt(q *Query) (string, error) {
	k := q.stake()
	if k == nil {
		return "", errors.New("codespace staking code 19: no delegation for (address, validator) tuple")
	}
	return `{"rewards":` + q.reward(k) + "}", nil
}

func rewardedValidators(q *Query) (string, error) {
	var names []string
	for _, k := range q.Chain.staked[q.Delegator] {
		names = append(names, `"`+k.Validator.Operator+`"`)
	}
	return `{"validators":[` + strings.Join(names, ",") + "]}", nil
}
