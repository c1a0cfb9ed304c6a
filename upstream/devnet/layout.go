package devnet

import (
	"bytes"
	"slices"
	"strconv"
)

// step is what one event adds to a delegation: the least amount that can be
// delegated. Amounts are in the smallest denomination.
const step = 1_024 * billion

const billion = 1_000_000_000

// A layout is the part of the state that does not depend on the height:
// who there is, and what they staked at the beginning.
type layout struct {
	seed       uint64
	validators []*validator            // by operator address
	byOperator map[string]*validator   // by raw address
	accounts   map[string][]*validator // validators that an account delegates to, by operator address
	proposer   []byte                  // consensus address of who makes all blocks
	first      address                 // the delegator who has set everything that can be set
	movers     int                     // validators that take turns in getting new delegations
}

// A validator is what stays the same about one.
type validator struct {
	member
	index int
	turn  int    // among the movers; -1 never
	bonus uint64 // on top of rewardRate
	rate  uint64 // of commission, in 1/10,000

	stakes []stake // by delegator address
	staked uint64  // their sum
}

// A stake is the delegation of one delegator to one validator.
type stake struct {
	delegator address
	tokens    uint64 // of all lots
	slot      int    // its turn among the stakes of the validator
	lots      []lot  // at least one
}

// A lot is a part of a stake with a term of its own, called a period
// delegation by the node.
type lot struct {
	ID     string
	Tokens uint64
	Period uint8 // 0 is flexible
}

// newLayout builds the cast of the chain from a height on: some validators, the
// popular one of which has some delegators.
func newLayout(seed uint64, height int64, validators, delegators int) *layout {
	l := &layout{seed: seed, byOperator: map[string]*validator{}, accounts: map[string][]*validator{}}
	people := readCast()
	l.first = people.Delegators[everywhere]
	l.proposer = consensusAddress(people.Validators[signer].PubKey)
	all := make([]*validator, validators)
	for i := range all {
		all[i] = newValidator(seed, height, i, people.validator(seed, i))
		l.byOperator[string(all[i].Operator[:])] = all[i]
		if all[i].gains() {
			all[i].turn, l.movers = l.movers, l.movers+1
		}
	}
	for _, v := range all {
		v.stakes = stakesOn(seed, v, people, delegators)
		v.finish()
	}
	l.validators = all
	slices.SortFunc(all, func(a, b *validator) int { return bytes.Compare(a.Operator[:], b.Operator[:]) })
	for _, v := range all {
		for i := range v.stakes {
			who := string(v.stakes[i].delegator[:])
			l.accounts[who] = append(l.accounts[who], v)
		}
	}
	return l
}

// gains tells whether a validator is one of the movers.
func (v *validator) gains() bool {
	return v.Status == bonded && v.SlashedAt == 0 && v.index != popular && v.index != signer
}

func newValidator(seed uint64, height int64, i int, m member) *validator {
	if height < judgement && m.SlashedAt >= judgement {
		m.Status, m.Jailed, m.Slash, m.Signing = bonded, false, 0, ""
	}
	return &validator{member: m, index: i, turn: -1, bonus: noise(seed, "bonus", i, 5), rate: 500 + 10*uint64(i%50)}
}

// leaves tells whether a validator is on its way out of the bonded ones, or was.
func (v *validator) leaves() bool { return v.Status == unbonding || v.Slash > 0 }

// stakesOn lists who delegates to a validator, in no order. Without delegators
// that is only the validator itself.
func stakesOn(seed uint64, v *validator, people cast, delegators int) []stake {
	var stakes []stake
	if v.Self > 0 {
		stakes = append(stakes, stake{delegator: v.Operator, lots: []lot{{ID: "0", Tokens: v.Self}}})
	}
	for _, s := range people.Stakes {
		if delegators > 0 && s.Validator == v.index {
			stakes = append(stakes, stake{delegator: people.Delegators[s.Delegator], lots: s.Lots})
		}
	}
	for i := crowd; v.index == popular && len(stakes) < delegators; i++ {
		l := lot{ID: "0", Tokens: step + noise(seed, "stake", i, 700)*billion + uint64(i), Period: uint8(noise(seed, "period", i, 4))}
		if l.Period > 0 {
			l.ID = strconv.Itoa(2000 + i)
		}
		stakes = append(stakes, stake{delegator: people.delegator(seed, i), lots: []lot{l}})
	}
	return stakes
}

// finish gives the stakes their turns, sums them up and sorts them. At which
// stake the turns begin differs, so that a delegator of many validators gets
// something now and then.
func (v *validator) finish() {
	for i := range v.stakes {
		s := &v.stakes[i]
		s.slot = (i + max(0, v.turn)) % len(v.stakes)
		for _, l := range s.lots {
			s.tokens += l.Tokens
		}
		v.staked += s.tokens
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
