package cosmos

import (
	"fmt"
	"slices"
	"time"
)

// The heights from which on there is more in the chain.
const (
	opening  = 18  // delegations and validators beyond the first exist
	building = 38  // the contract exists
	voting   = 820 // VotedProposal is voted on
)

// What one event does. In every block from opening on the wide delegator adds to the next of
// its stakes.
const (
	step = 45
	fee  = 600
)

// A state is the chain after one block.
type state struct {
	*layout
	chain  *Chain
	height int64
	forks  int64 // how often the chain was set back to below the height
}

// at is the state after block h, on the fork of a node.
func (c *Chain) at(h int64, n nodeView) state {
	return state{layout: c.layout, chain: c, height: h, forks: n.Forks(h)}
}

// events is how many blocks with delegations there have been.
func (s state) events() int64 { return max(0, s.height-opening+1) }

// added is how many events have added to a stake.
func (s state) added(k *stake) int64 {
	if k.slot < 0 {
		return 0
	}
	return (s.events() + s.turns - 1 - k.slot) / s.turns
}

// exists says whether a stake has been made.
func (s state) exists(k *stake) bool { return k.self || s.height >= opening }

// tokens are what a stake is worth; a share is a token here.
func (s state) tokens(k *stake) int64 {
	if !s.exists(k) {
		return 0
	}
	return k.base + step*s.added(k)
}

// bonded are the tokens of a validator.
func (s state) bonded(v *validator) int64 {
	var sum int64
	for _, k := range v.stakes {
		sum += s.tokens(k)
	}
	return sum
}

// present are the stakes among those given.
func (s state) present(stakes []*stake) []*stake {
	return slices.DeleteFunc(slices.Clone(stakes), func(k *stake) bool { return !s.exists(k) })
}

// members are the validators there are.
func (s state) members() []*validator {
	if s.height >= opening {
		return s.validators
	}
	return []*validator{s.operated(Validators()[0])}
}

// member is a validator by its raw address; nil for none.
func (s state) member(raw string) *validator { return validatorAt(s.members(), raw) }

// status is what staking says about a validator.
func (v *validator) status() string {
	if v.Jailed {
		return "BOND_STATUS_UNBONDED"
	}
	return "BOND_STATUS_BONDED"
}

// sent is how many transactions of an account are in blocks.
func (s state) sent(a *account) int64 {
	sum, _ := s.chain.mempool.sums(a.raw, s.height)
	sum += a.sequence
	for _, k := range a.stakes {
		sum += s.added(k)
	}
	return sum
}

// balance is what an account has of a coin.
func (s state) balance(a *account, c coin) int64 {
	if c.Denom != "stake" {
		return c.Amount
	}
	_, sum := s.chain.mempool.sums(a.raw, s.height)
	sum += c.Amount
	for _, k := range a.stakes {
		sum -= s.added(k) * (step + fee)
	}
	return sum
}

// amount is what an account, nil for none, has of a denomination.
func (s state) amount(a *account, denom string) int64 {
	if a != nil {
		for _, c := range a.coins {
			if c.Denom == denom {
				return s.balance(a, c)
			}
		}
	}
	return 0
}

// supply is all there is of a denomination.
func (s state) supply(denom string) int64 {
	if denom == "stake" {
		return 1_000_000_000_000 + 185_000*s.height + s.forks
	}
	return s.amount(s.byAddress[mustDecode(accountPrefix, WideDelegator)], denom)
}

// Decimal is a number of millionths with its 18 digits.
func Decimal(millionths int64) string {
	return fmt.Sprintf("%d.%06d%012d", millionths/1_000_000, millionths%1_000_000, 0)
}

// earned are the rewards of a stake in millionths. A delegation pays them out.
func (s state) earned(k *stake) int64 {
	if k.slot < 0 {
		return s.tokens(k) / 1000 * s.height
	}
	since := (s.events() + s.turns - 1 - k.slot) % s.turns
	return s.tokens(k)*(since+1)/100 + s.forks
}

// hash is some digest in base64 that stands for a part of the chain.
func (s state) hash(what string, n int64) string { return base64Text(digest(s.seed, what, n)) }

// stamp is a time as the API writes it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// nominalTime is the time of a block as far as it is part of the state, which is
// reckoned from the height.
func nominalTime(h int64) string {
	return stamp(time.Date(2026, 3, 1, 0, 0, 0, 40_541_588, time.UTC).Add(time.Duration(h) * time.Second))
}
