package cosmos

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// A layout is what does not move: who exists and who delegates to whom.
type layout struct {
	seed       uint64
	accounts   []*account // by address
	validators []*validator
	turns      int64 // stakes of the wide delegator, which events add to in turn
	byAddress  map[string]*account
}

// An account holds coins and may delegate.
type account struct {
	raw      string
	number   int
	sequence int64 // before the first event
	coins    []coin
	stakes   []*stake // by validator
}

// A coin is an amount of one denomination.
type coin struct {
	Denom  string
	Amount int64
}

// A validator and its delegators.
type validator struct {
	member
	raw    string
	stakes []*stake // by delegator
}

// A stake is what an account delegates to a validator.
type stake struct {
	who  *account
	to   *validator
	base int64
	slot int64 // its turn among the stakes that events add to; -1 never
	self bool  // exists from the first block on
}

// Digest makes bytes that look random out of a name and a number: the source of
// everything that does.
func Digest(seed uint64, what string, n int64) [sha256.Size]byte {
	b := binary.BigEndian.AppendUint64(append(make([]byte, 0, 64), what...), seed)
	return sha256.Sum256(binary.BigEndian.AppendUint64(b, uint64(n)))
}

// digest is Digest as a slice.
func digest(seed uint64, what string, n int64) []byte {
	sum := Digest(seed, what, n)
	return sum[:]
}

func newLayout(seed uint64, delegators int) *layout {
	l := &layout{seed: seed, byAddress: map[string]*account{}}
	for _, m := range cast().Validators {
		l.validators = append(l.validators, &validator{member: m, raw: mustDecode(validatorPrefix, m.Operator)})
	}
	slices.SortFunc(l.validators, func(a, b *validator) int { return strings.Compare(a.raw, b.raw) })
	for _, v := range l.validators {
		l.delegate(l.add(v.raw, 1, coin{"stake", 99_000_000}), v, v.Tokens, true)
	}
	l.populate(delegators)
	l.order()
	wallet := mustDecode(accountPrefix, Wallet) // of whom no list tells
	l.byAddress[wallet] = &account{raw: wallet, number: len(l.accounts), coins: []coin{{"stake", 1_000_000_000}}}
	return l
}

// add makes an account.
func (l *layout) add(raw string, sequence int64, coins ...coin) *account {
	a := &account{raw: raw, number: len(l.accounts), sequence: sequence, coins: coins}
	l.accounts = append(l.accounts, a)
	l.byAddress[raw] = a
	return a
}

// populate adds the named accounts and the delegators of the popular validator.
func (l *layout) populate(delegators int) {
	for _, e := range cast().Accounts {
		a := l.add(mustDecode(accountPrefix, e.Address), e.Sequence, e.Coins...)
		for _, operator := range e.Stakes {
			l.delegate(a, l.operated(operator), 250_000, false)
		}
	}
	for i := range delegators - 1 { // the wide delegator is one of them
		raw := string(digest(l.seed, "account", int64(i))[:20])
		l.delegate(l.add(raw, 1, coin{"stake", 50_000_000}, coin{"token", 1_000}), l.operated(PopularValidator), 10_000+int64(i), false)
	}
}

// delegate adds a stake.
func (l *layout) delegate(who *account, to *validator, amount int64, self bool) {
	k := &stake{who: who, to: to, base: amount, slot: -1, self: self}
	who.stakes, to.stakes = append(who.stakes, k), append(to.stakes, k)
	if who.raw == mustDecode(accountPrefix, WideDelegator) {
		k.slot = l.turns
		l.turns++
	}
}

// order sorts what is listed.
func (l *layout) order() {
	slices.SortFunc(l.accounts, func(a, b *account) int { return strings.Compare(a.raw, b.raw) })
	for _, a := range l.accounts {
		slices.SortFunc(a.stakes, func(x, y *stake) int { return strings.Compare(x.to.raw, y.to.raw) })
	}
	for _, v := range l.validators {
		slices.SortFunc(v.stakes, func(x, y *stake) int { return strings.Compare(x.who.raw, y.who.raw) })
	}
}

// operated is a validator by the text of its operator's address.
func (l *layout) operated(operator string) *validator {
	return validatorAt(l.validators, mustDecode(validatorPrefix, operator))
}

// validatorAt is one of some validators by its raw address; nil for none.
func validatorAt(some []*validator, raw string) *validator {
	for _, v := range some {
		if v.raw == raw {
			return v
		}
	}
	return nil
}

// publicKey is the key of an account.
func (l *layout) publicKey(a *account) string {
	return base64Text(append([]byte{2}, digest(l.seed, "key"+a.raw, 0)...))
}
