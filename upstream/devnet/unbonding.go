package devnet

import (
	"bytes"
	"fmt"
	"slices"
)

// An unbondingEntry is tokens on their way out of a delegation.
type unbondingEntry struct {
	delegator address
	validator address
	id        int
	tokens    uint64
}

// unbondings are all of them, in the orders they are asked for in.
type unbondings struct {
	byValidator map[address][]unbondingEntry // by delegator
	byDelegator map[address][]unbondingEntry // by validator
	total       uint64
}

// leaving is how many of the crowd are leaving the deserted validator.
const leaving = 140

func newUnbondings(seed uint64, all []*validator, people cast, delegators int) unbondings {
	u := unbondings{byValidator: map[address][]unbondingEntry{}, byDelegator: map[address][]unbondingEntry{}}
	id := 9
	add := func(d address, v int, tokens uint64) {
		if v >= len(all) {
			return
		}
		e := unbondingEntry{d, all[v].operator, id, tokens}
		id++
		u.byValidator[e.validator] = append(u.byValidator[e.validator], e)
		u.byDelegator[d] = append(u.byDelegator[d], e)
		u.total += tokens
	}
	d0 := people.delegators[everywhere]
	add(d0, popular, 2_300_500*million)
	add(d0, 11, step)
	add(d0, 12, step)
	for i := range min(leaving, delegators) {
		add(people.delegator(seed, crowd+i), deserted, step)
	}
	for _, entries := range u.byValidator {
		slices.SortFunc(entries, func(a, b unbondingEntry) int { return bytes.Compare(a.delegator[:], b.delegator[:]) })
	}
	for _, entries := range u.byDelegator {
		slices.SortFunc(entries, func(a, b unbondingEntry) int { return bytes.Compare(a.validator[:], b.validator[:]) })
	}
	return u
}

// entriesOf finds the entries of an address of any length.
func entriesOf(m map[address][]unbondingEntry, raw []byte) []unbondingEntry {
	if len(raw) != len(address{}) {
		return nil
	}
	return m[address(raw)]
}

func (q *query) unbonding(e unbondingEntry) {
	q.textf(`{"delegator_address":%q,"validator_address":%q,"entries":[{"creation_height":"95","completion_time":%q,"initial_balance":"%d","balance":"%d","unbonding_id":"%d"}]}`,
		e.delegator, e.validator, stamp(releaseTime), e.tokens, e.tokens, e.id)
}

// validatorUnbondings answers with what is leaving a validator.
func validatorUnbondings(q *query) error {
	raw, err := q.operator(0)
	if err != nil {
		return err
	}
	return q.unbondingPage(entriesOf(q.unbondings.byValidator, raw), func(e unbondingEntry) []byte { return e.delegator.key() })
}

// delegatorUnbondings answers with what a delegator takes out.
func delegatorUnbondings(q *query) error {
	raw, err := q.delegator(0)
	if err != nil {
		return err
	}
	return q.unbondingPage(entriesOf(q.unbondings.byDelegator, raw), func(e unbondingEntry) []byte { return e.validator.key() })
}

func (q *query) unbondingPage(all []unbondingEntry, key func(unbondingEntry) []byte) error {
	page, err := paginate(q.request.Pagination, all, key, nil)
	if err != nil {
		return err
	}
	q.list(`{"unbonding_responses":`, len(page.items), "null", func(i int) { q.unbonding(page.items[i]) })
	q.pagination(page.next, page.total)
	return nil
}

// unbondingSingle answers with what is leaving one delegation.
func unbondingSingle(q *query) error {
	p, err := q.pair(1, 0)
	if err != nil {
		return err
	}
	for _, e := range entriesOf(q.unbondings.byDelegator, p.delegator) {
		if bytes.Equal(e.validator[:], p.operator) {
			q.text(`{"unbond":`)
			q.unbonding(e)
			q.text("}")
			return nil
		}
	}
	return fmt.Errorf("rpc error: code = NotFound desc = unbonding delegation with delegator %s not found for validator %s",
		bech32Text(accountPrefix, p.delegator), bech32Text(validatorPrefix, p.operator))
}

// A redelegation is tokens that have moved from one validator to another.
type redelegation struct {
	delegator, from, to address
	id                  int
	lot                 string
	tokens              uint64
}

func newRedelegations(all []*validator, people cast) []redelegation {
	var moves []redelegation
	add := func(d, from, to int, tokens uint64, lot string) {
		if max(from, to) < len(all) {
			moves = append(moves, redelegation{people.delegators[d], all[from].operator, all[to].operator, 5 + len(moves), lot, tokens})
		}
	}
	add(everywhere, popular, deserted, 1_500*billion, "0")
	add(everywhere, 7, 9, step, "0")
	add(mover, 7, 9, 2*step, "0")
	add(periodic, popular, 10, step, "979")
	slices.SortFunc(moves, func(a, b redelegation) int { return bytes.Compare(a.key(), b.key()) })
	return moves
}

// key is both validators.
func (r redelegation) key() []byte { return append(r.from.key(), r.to.key()...) }

// redelegations answers with the redelegations of a delegator. Between a
// source and a destination there is one or a refusal, and no pagination; a
// source or a destination alone filters nothing.
func redelegations(q *query) error {
	raw, err := q.delegator(0)
	if err != nil {
		return err
	}
	from, err := optionalHex(q.request.SrcValidatorAddr)
	if err != nil {
		return err
	}
	to, err := optionalHex(q.request.DstValidatorAddr)
	if err != nil {
		return err
	}
	if from != nil && to != nil {
		return q.redelegation(raw, from, to)
	}
	all := slices.DeleteFunc(slices.Clone(q.moves), func(r redelegation) bool { return !bytes.Equal(r.delegator[:], raw) })
	page, err := paginate(q.request.Pagination, all, redelegation.key, nil)
	if err != nil {
		return err
	}
	q.list(`{"redelegation_responses":`, len(page.items), "[]", func(i int) { q.move(page.items[i]) })
	q.pagination(page.next, page.total)
	return nil
}

func (q *query) redelegation(delegator, from, to []byte) error {
	for _, r := range q.moves {
		if bytes.Equal(r.delegator[:], delegator) && bytes.Equal(r.from[:], from) && bytes.Equal(r.to[:], to) {
			q.text(`{"redelegation_responses":[`)
			q.move(r)
			q.text("]}")
			return nil
		}
	}
	return fmt.Errorf("rpc error: code = Internal desc = rpc error: code = NotFound desc = redelegation not found for delegator address %s from validator address %s",
		bech32Text(accountPrefix, delegator), bech32Text(validatorPrefix, from))
}

func (q *query) move(r redelegation) {
	q.textf(`{"redelegation":{"delegator_address":%q,"validator_src_address":%q,"validator_dst_address":%q,"entries":null},"entries":[{"redelegation_entry":{"creation_height":94,"completion_time":%q,"initial_balance":"%d","shares_dst":"%s","unbonding_id":%d,"period_delegation_id":%q},"balance":"%d"}]}`,
		r.delegator, r.from, r.to, stamp(releaseTime), r.tokens, decimal{whole: r.tokens}, r.id, r.lot, r.tokens)
}

// optionalHex parses an address that may be left out.
func optionalHex(s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	return parseHex(s)
}
