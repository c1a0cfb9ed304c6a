// Package state simulates the state that both dialects' REST APIs show: validators, delegations whose amounts change
// with the blocks, and pages of lists. Everything else is recorded.
//
// A state is a pure function of seed, sizes, height and the delegations of clients. No state is stored, so any height
// can be read at any time.
package state

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// Options describe a chain.
type Options struct {
	ChainID    string
	Seed       uint64 // varies generated addresses and hashes
	Validators int    // Story: number of validators; beyond those of the recording they are generated
	Delegators int    // number of delegators of the popular validator
}

// A Chain is the part of the state that no block changes: the accounts, and the stakes at the start.
type Chain struct {
	Words       Words
	ID          string
	Seed        uint64
	First, Pace uint64       // height of the first event, and number of blocks between events
	Step        uint64       // tokens that an event adds to a stake
	Validators  []*Validator // by address
	Popular     *Validator   // has the most delegations
	Turns       []*Validator // validators that get the events, in turn

	operated map[string]*Validator // by raw address
	staked   map[string][]*Stake   // by raw address of the delegator
}

// A Validator and its delegations.
type Validator struct {
	Operator, Raw, Status string
	message               string // its JSON, with ${tokens} for its tokens
	base                  uint64
	turns                 uint64   // number of its entries in Chain.Turns
	stakes                []*Stake // by delegator
	moving                uint64   // number of stakes that events add to, in turn

	mu     sync.Mutex
	writes []write // delegations of clients
}

// A write adds tokens of a client to a stake.
type write struct {
	delegator string
	tokens    uint64
	height    int64 // the lowest height whose state includes it
}

// A Stake is what an account delegates to a validator.
type Stake struct {
	Validator      *Validator
	Delegator, Raw string
	base           uint64
	slot           int64 // turn among the stakes that events add to; -1 means never
}

// bondStates are the statuses of a validator, by number.
var bondStates = []string{"BOND_STATUS_UNSPECIFIED", "BOND_STATUS_UNBONDED", "BOND_STATUS_UNBONDING", "BOND_STATUS_BONDED"}

// Bonded is the status of an active validator.
const Bonded = "BOND_STATUS_BONDED"

// amounts matches the members of a validator that equal its tokens: a share is worth one token.
var amounts = regexp.MustCompile(`"(tokens|delegator_shares|rewards_tokens|delegator_rewards_shares)":"\d+`)

// AddValidator adds a recorded validator. Its tokens become the delegation of its own account.
func (c *Chain) AddValidator(raw, recorded string, moves bool) *Validator {
	tokens, status := gjson.Get(recorded, "tokens").String(), gjson.Get(recorded, "status").String()
	if i, err := strconv.Atoi(status); err == nil {
		status = bondStates[i]
	}
	v := &Validator{Operator: c.Words.Operator(raw), Raw: raw, Status: status, message: amounts.ReplaceAllString(recorded, `"$1":"$${tokens}`)}
	if c.operated == nil {
		c.operated, c.staked = map[string]*Validator{}, map[string][]*Stake{}
	}
	c.Validators, c.operated[raw] = append(c.Validators, v), v
	base, _ := strconv.ParseUint(tokens, 10, 64)
	c.Delegate(raw, v, base, moves)
	return v
}

// Delegate adds a delegation. If moves is set, events add to it.
func (c *Chain) Delegate(raw string, v *Validator, tokens uint64, moves bool) {
	k := &Stake{Validator: v, Delegator: c.Words.Account(raw), Raw: raw, base: tokens, slot: -1}
	if moves {
		k.slot = int64(v.moving) //nolint:gosec // it is small
		v.moving++
	}
	v.base += tokens
	v.stakes, c.staked[raw] = append(v.stakes, k), append(c.staked[raw], k)
}

// Order sorts the lists. Afterwards only Write may change the chain.
func (c *Chain) Order() {
	slices.SortFunc(c.Validators, func(a, b *Validator) int { return strings.Compare(a.Raw, b.Raw) })
	for _, v := range c.Validators {
		slices.SortFunc(v.stakes, func(a, b *Stake) int { return strings.Compare(a.Raw, b.Raw) })
	}
	for _, stakes := range c.staked {
		slices.SortFunc(stakes, func(a, b *Stake) int { return strings.Compare(a.Validator.Raw, b.Validator.Raw) })
	}
	for _, v := range c.Turns {
		v.turns++
	}
}

// Validator returns a validator by its raw address, or nil.
func (c *Chain) Validator(raw string) *Validator { return c.operated[raw] }

// Operators returns the addresses of all validators, in order.
func (c *Chain) Operators() (all []string) {
	for _, v := range c.Validators {
		all = append(all, v.Operator)
	}
	return all
}

// Delegators returns the addresses that delegate to the validator, in order.
func (v *Validator) Delegators() (all []string) {
	for _, k := range v.stakes {
		all = append(all, k.Delegator)
	}
	return all
}

// A State is the chain after one block.
type State struct {
	Chain  *Chain
	Height int64
	Forks  int64 // number of rollbacks to below the height
}

// forkAge is the number of blocks whose events and rewards a fork adds, so that its blocks differ from the ones they
// replace.
const forkAge = 75

// At returns the state of a node after block h.
func (c *Chain) At(h int64, n View) State { return State{Chain: c, Height: h, Forks: n.Forks(h)} }

// Age returns the height from which amounts are computed.
func (s State) Age() uint64 { return uint64(s.Height + s.Forks*forkAge) } //nolint:gosec // not negative

// events returns the number of events of a validator so far.
func (s State) events(v *Validator) uint64 {
	if s.Age() < s.Chain.First || v.turns == 0 {
		return 0
	}
	all, round := (s.Age()-s.Chain.First)/s.Chain.Pace+1, uint64(len(s.Chain.Turns))
	n := all / round * v.turns
	for _, other := range s.Chain.Turns[:all%round] {
		if other == v {
			n++
		}
	}
	return n
}

// Added returns the number of events that have added to a stake.
func (s State) Added(k *Stake) uint64 {
	if k.slot < 0 {
		return 0
	}
	m := k.Validator.moving
	return (s.events(k.Validator) + m - 1 - uint64(k.slot)) / m
}

// AddedTo returns the number of events that have added to the stakes of an account.
func (s State) AddedTo(raw string) (n uint64) {
	for _, k := range s.Chain.staked[raw] {
		n += s.Added(k)
	}
	return n
}

// Write adds tokens to the stake of a delegator at the validator, starting at a height.
func (v *Validator) Write(delegator string, tokens uint64, height int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.writes = append(v.writes, write{delegator, tokens, height})
}

// written returns the tokens that clients have added to a validator, or to the stake of one delegator.
func (s State) written(v *Validator, delegator string) (tokens uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.writes {
		if w.height <= s.Height && (delegator == "" || delegator == w.delegator) {
			tokens += w.tokens
		}
	}
	return tokens
}

func (s State) amount(k *Stake) uint64 {
	return k.base + s.Added(k)*s.Chain.Step + s.written(k.Validator, k.Delegator)
}
func (s State) tokens(v *Validator) uint64 {
	return v.base + s.events(v)*s.Chain.Step + s.written(v, "")
}

// Staked returns the tokens of the validators with a status, and of the others.
func (s State) Staked(status string) (in, others uint64) {
	for _, v := range s.Chain.Validators {
		if v.Status == status {
			in += s.tokens(v)
		} else {
			others += s.tokens(v)
		}
	}
	return in, others
}

// Digest returns pseudo-random bytes for a name and a number.
func Digest(seed uint64, what string, n int64) [sha256.Size]byte {
	b := binary.BigEndian.AppendUint64(append(make([]byte, 0, 64), what...), seed)
	return sha256.Sum256(binary.BigEndian.AppendUint64(b, uint64(n))) //nolint:gosec // only the bits count
}

// Base64 returns raw in base64.
func Base64[T ~string | ~[]byte](raw T) string { return base64.StdEncoding.EncodeToString([]byte(raw)) }
