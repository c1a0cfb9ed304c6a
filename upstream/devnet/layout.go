package devnet

import (
	"bytes"
	"slices"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// step is what one event adds to a delegation: the least amount that can be
// delegated. Amounts are in the smallest denomination.
const step = 1_024 * billion

const (
	million = 1_000_000
	billion = 1_000_000_000
)

// A layout is the part of the state that does not depend on the height:
// who there is, and what they staked at the beginning.
type layout struct {
	seed       uint64
	validators []*validator            // by operator address
	byOperator map[string]*validator   // by raw address
	accounts   map[string][]*validator // those that an account delegates to, by operator address
	proposer   []byte                  // consensus address of who makes all blocks
	first      address                 // the delegator who has set everything that can be set
	movers     int                     // validators that take turns in getting new delegations
	unbondings []unbondingEntry
	moves      []redelegation
}

// A validator is what stays the same about one.
type validator struct {
	member
	index  int
	status int
	jailed bool
	slash  uint64 // lost, in 1/10,000
	turn   int    // among the movers; -1 never
	bonus  uint64 // on top of rewardRate
	rate   uint64 // of commission, in 1/10,000
	bech32 string // operator address, as rewards have it
	about  string // its description

	stakes  []stake   // by delegator address
	staked  uint64    // their sum
	rewards decimal   // the sum of their rewards shares
	growth  []decimal // [n]: rewards shares that the first n events of a round add
}

// A stake is the delegation of one delegator to one validator.
type stake struct {
	delegator address
	tokens    uint64
	slot      int   // its turn among the stakes of the validator
	period    uint8 // what kind of lot it is if lots is nil
	lots      []lot
}

// A lot is a part of a stake with a term of its own, called a period
// delegation by the node.
type lot struct {
	id     string
	tokens uint64
	period uint8 // 0 is flexible
}

// newLayout builds the cast of the chain from a height on: some validators, the
// popular one of which has some delegators.
func newLayout(seed uint64, height int64, validators, delegators int) *layout {
	l := &layout{seed: seed, byOperator: map[string]*validator{}, accounts: map[string][]*validator{}}
	people := readCast()
	l.first = people.delegators[everywhere]
	l.proposer = consensusAddress(people.validators[signer].pubKey)
	all := make([]*validator, validators)
	for i := range all {
		all[i] = newValidator(seed, height, i, people.validator(seed, i))
		l.byOperator[string(all[i].operator[:])] = all[i]
		if all[i].gains() {
			all[i].turn, l.movers = l.movers, l.movers+1
		}
	}
	for _, v := range all {
		v.stakes = stakesOn(seed, v, people, delegators)
		v.finish()
	}
	if delegators > 0 {
		l.unbondings = newUnbondings(seed, all, people, delegators)
		l.moves = newRedelegations(all, people)
	}
	l.validators = all
	slices.SortFunc(all, func(a, b *validator) int { return bytes.Compare(a.operator[:], b.operator[:]) })
	for _, v := range all {
		for i := range v.stakes {
			who := string(v.stakes[i].delegator[:])
			l.accounts[who] = append(l.accounts[who], v)
		}
	}
	return l
}

// gains tells whether a validator is one of the movers. Those that were slashed
// are not, which keeps their shares whole numbers.
func (v *validator) gains() bool {
	return v.status == bonded && v.slash == 0 && v.index != popular && v.index != signer && v.index != tombstoned
}

func newValidator(seed uint64, height int64, i int, m member) *validator {
	v := &validator{member: m, index: i, status: statusOf(i, height), jailed: isJailed(i, height), turn: -1}
	v.slash = released[i]
	if v.jailed {
		v.slash = jailed[i].slash
	}
	v.bonus = noise(seed, "bonus", i, 5000)
	v.rate = 500 + 10*uint64(i%50)
	v.bech32 = cosmos.Bech32(validatorPrefix, m.operator[:])
	v.about = describe(i)
	return v
}

// stakesOn lists who delegates to a validator, in no order. Without delegators
// that is only the validator itself.
func stakesOn(seed uint64, v *validator, people cast, delegators int) []stake {
	var stakes []stake
	if v.index != 20 && v.index != 21 { // they withdrew their own stake
		stakes = append(stakes, stake{delegator: v.operator, tokens: selfStake(seed, v.index)})
	}
	if delegators == 0 {
		return stakes
	}
	stakes = append(stakes, sampleStakes(v.index, people.delegators)...)
	if v.index != popular {
		return stakes
	}
	for i := crowd; len(stakes) < delegators; i++ {
		tokens := step + noise(seed, "stake", i, 700)*billion + uint64(i)
		stakes = append(stakes, stake{delegator: people.delegator(seed, i), tokens: tokens, period: uint8(noise(seed, "period", i, 4))})
	}
	return stakes
}

// sampleStakes are the delegations of the sample delegators to the i-th validator.
func sampleStakes(i int, who map[int]address) (stakes []stake) {
	switch {
	case i == popular:
		stakes = append(stakes, stake{delegator: who[everywhere], lots: everyPeriod()}, stake{delegator: who[periodic], lots: manyLots()})
	case i == 1 || i > popular && i <= 64:
		stakes = append(stakes, stake{delegator: who[everywhere], tokens: 2_048_500*million + uint64(i)*billion})
	}
	switch i {
	case 5, 6, 7, 8, 9:
		stakes = append(stakes, stake{delegator: who[handful], tokens: (4_116 + uint64(i)) * billion})
	case 10:
		stakes = append(stakes, stake{delegator: who[periodic], tokens: step})
	}
	if i == 7 || i == 9 {
		stakes = append(stakes, stake{delegator: who[mover], tokens: 2 * step})
	}
	return stakes
}

// selfStake is what a validator has staked itself. Early ones have more.
func selfStake(seed uint64, i int) uint64 {
	switch {
	case i == signer:
		return 90_000_000 * billion
	case i >= 67:
		return step
	case i >= 60 && i <= 62:
		return 450_000*billion + noise(seed, "self", i, 90_000)*billion
	default:
		return 4_000_000/uint64(i+1)*billion + noise(seed, "self", i, 9_000)*billion
	}
}

// finish gives the stakes their turns, sums them up and sorts them. At which
// stake the turns begin differs, so that a delegator of many validators gets
// something now and then.
func (v *validator) finish() {
	count := len(v.stakes)
	periods := make([]uint8, count) // by slot
	for i := range v.stakes {
		s := &v.stakes[i]
		for _, lot := range s.lots {
			s.tokens += lot.tokens
		}
		if v.locked {
			s.period = 0 // locked tokens have no terms
		}
		s.slot = (i + max(0, v.turn)) % count
		periods[s.slot] = s.first()
		v.staked += s.tokens
		v.rewards = v.rewards.add(s.rewardsShares(v, 0))
	}
	v.growth = make([]decimal, count+1)
	for slot, period := range periods {
		v.growth[slot+1] = v.growth[slot].add(v.share(step, period))
	}
	slices.SortFunc(v.stakes, func(a, b stake) int { return bytes.Compare(a.delegator[:], b.delegator[:]) })
}

// find is the stake of a delegator, nil if there is none.
func (v *validator) find(delegator []byte) *stake {
	i, ok := slices.BinarySearchFunc(v.stakes, delegator, func(s stake, d []byte) int { return bytes.Compare(s.delegator[:], d) })
	if !ok {
		return nil
	}
	return &v.stakes[i]
}
