package devnet

// eventEvery is how many blocks pass between two delegations.
const eventEvery = 5

// A state is the chain after one block: a layout and what has been added to it
// since. Every number in it has a closed form, so there is no history to keep.
//
// There is an event every eventEvery blocks. Every third goes to the popular
// validator, the others to the movers in turn; at each validator the stakes
// take turns. An event adds step to a stake.
type state struct {
	*layout
	chain  *chain // for the past
	height int64
	forks  int64 // how often the chain was set back to below the height
}

// forkAge is how many blocks' worth of events and rewards a fork adds, so that
// its blocks differ from the blocks that were there before.
const forkAge = 15 * eventEvery

// age is the height from which amounts follow.
func (s state) age() int64 { return s.height + s.forks*forkAge }

// events is how many delegations a validator has got so far.
func (s state) events(v *validator) uint64 {
	all := uint64(s.age() / eventEvery)
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

// shares are the shares of all stakes of a validator.
func (s state) shares(v *validator) uint64 { return v.staked + s.events(v)*step }

// tokens are what the shares are worth: less, if the validator was slashed.
func (s state) tokens(v *validator) uint64 { return v.worth(s.shares(v)) }

// worth is what shares of a validator are worth in tokens.
func (v *validator) worth(shares uint64) uint64 {
	return ratio(shares, 10_000-v.Slash, 10_000).whole
}

// rewardsShares are the weights of all stakes of a validator in its rewards.
func (s state) rewardsShares(v *validator) decimal {
	return v.rewards.add(v.share(s.events(v)*step, 0))
}

// The weight of a term, in 1/1,000, by period type; and of locked tokens.
var periodWeights = [...]uint64{1000, 1051, 1160, 1340}

const lockedWeight = 25

// share is the weight of tokens in the rewards of a validator.
func (v *validator) share(tokens uint64, period uint8) decimal {
	weight := uint64(1000)
	if v.Locked {
		weight = lockedWeight
	}
	return ratio(tokens, periodWeights[period]*weight, 1_000_000)
}

// rewardsShares is the weight of a stake to which flexible tokens were added.
func (k *stake) rewardsShares(v *validator, added uint64) decimal {
	sum := v.share(added, 0)
	for _, l := range k.lots {
		sum = sum.add(v.share(l.Tokens, l.Period))
	}
	return sum
}

// supply is all there is of the token. Inflation adds to it with every block.
func (s state) supply() uint64 {
	var sum uint64
	for _, v := range s.validators {
		sum += s.tokens(v)
	}
	return sum + uint64(s.age())*1_165_525_114
}

// pool is the tokens of the validators that are not bonded and of the bonded ones.
func (s state) pool() (notBonded, inBond uint64) {
	for _, v := range s.validators {
		if v.Status == bonded {
			inBond += s.tokens(v)
		} else {
			notBonded += s.tokens(v)
		}
	}
	return notBonded, inBond
}
