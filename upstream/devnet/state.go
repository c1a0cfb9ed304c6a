package devnet

import "github.com/tipcache/tipcache/upstream/devnet/cosmos"

// eventEvery is how many blocks pass between two delegations.
const eventEvery = 5

// A state is the chain after one block: a layout and what has been added to it
// since. Every number in it has a closed form, so there is no history to keep.
//
// There is an event every eventEvery blocks. Every third goes to the popular
// validator, the others to the movers in turn; at each validator the stakes
// take turns. An event adds step to a stake. A share is worth a token.
type state struct {
	*layout
	chain  *chain
	height int64
	forks  int64 // how often the chain was set back to below the height
}

// forkAge is how many blocks' worth of events and rewards a fork adds, so that
// its blocks differ from the blocks that were there before.
const forkAge = 15 * eventEvery

// age is the height from which amounts follow.
func (s state) age() uint64 { return uint64(s.height + s.forks*forkAge) } //nolint:gosec // not negative

// events is how many delegations a validator has got so far.
func (s state) events(v *validator) uint64 {
	all := s.age() / eventEvery
	switch {
	case v.index == popular:
		return all / 3
	case v.turn < 0:
		return 0
	default:
		return turns(all-all/3, v.turn, s.movers)
	}
}

// turns is how many of n turns, taken in order, fall to one place among count.
func turns(n uint64, place, count int) uint64 {
	p, c := uint64(place), uint64(count)
	if n <= p {
		return 0
	}
	return (n-p-1)/c + 1
}

// added is what events have added to a stake.
func (s state) added(v *validator, k *stake) uint64 {
	return turns(s.events(v), k.slot, len(v.stakes)) * step
}

// tokens are those of a stake.
func (s state) tokens(v *validator, k *stake) uint64 { return k.tokens + s.added(v, k) }

// shares are the shares of all stakes of a validator.
func (s state) shares(v *validator) uint64 { return v.staked + s.events(v)*step }

// supply is all there is of a token. Inflation adds to it with every block.
func (s state) supply(token string) uint64 {
	if token != denom {
		return 0
	}
	return s.staked(func(*validator) bool { return true }) + s.age()*1_165_525_114
}

// staked are the tokens of some validators.
func (s state) staked(some func(*validator) bool) (sum uint64) {
	for _, v := range s.validators {
		if some(v) {
			sum += s.shares(v)
		}
	}
	return sum
}

// rewardRate is what 10^9 shares earn in a block, in millionths; the seed and the validator
// add to it.
const rewardRate = 60

// earned is what shares have earned at a validator so far, in millionths. Only validators
// that are bonded give rewards, and they give some with every block.
func (s state) earned(v *validator, shares uint64) uint64 {
	blocks := s.age() + 1 - min(s.age()+1, singularity)
	switch {
	case v.SlashedAt >= judgement:
		blocks = min(blocks, judgement-singularity)
	case v.Status != bonded:
		return 0
	}
	return shares / billion * blocks * (rewardRate + v.bonus)
}

// reward is what a delegation has earned.
func (s state) reward(v *validator, k *stake) uint64 { return s.earned(v, s.tokens(v, k)) }

// hash is some digest that stands for a part of the chain at this height.
func (s state) hash(what string) []byte {
	d := cosmos.Digest(s.seed, s.chain.id+what, s.height+s.forks<<40)
	return d[:]
}
