package devnet

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// An unbondingEntry is tokens on their way out of a delegation.
type unbondingEntry struct {
	delegator, validator address
	id                   int
	tokens               uint64
}

// crowdLeaving is how many of the crowd are leaving the deserted validator.
const crowdLeaving = 140

// newUnbondings lists them by delegator and validator.
func newUnbondings(seed uint64, all []*validator, people cast, delegators int) (list []unbondingEntry) {
	add := func(d address, v int, tokens uint64) {
		if v < len(all) {
			list = append(list, unbondingEntry{d, all[v].operator, 9 + len(list), tokens})
		}
	}
	d0 := people.delegators[everywhere]
	add(d0, popular, 2_300_500*million)
	add(d0, 11, step)
	add(d0, 12, step)
	for i := range min(crowdLeaving, delegators) {
		add(people.delegator(seed, crowd+i), deserted, step)
	}
	slices.SortFunc(list, func(a, b unbondingEntry) int {
		return cmp.Or(bytes.Compare(a.delegator[:], b.delegator[:]), bytes.Compare(a.validator[:], b.validator[:]))
	})
	return list
}

func (q *query) unbonding(e unbondingEntry) {
	q.textf(`{"delegator_address":"%s","validator_address":"%s","entries":[{"creation_height":"95","completion_time":%q,"initial_balance":"%d","balance":"%d","unbonding_id":"%d"}]}`,
		e.delegator, e.validator, stamp(releaseTime), e.tokens, e.tokens, e.id)
}

// where are the items of a list that are so.
func where[T any](all []T, so func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !so(one) })
}

// validatorUnbondings answers with what is leaving a validator.
func validatorUnbondings(q *query) error {
	leaving := where(q.unbondings, func(e unbondingEntry) bool { return bytes.Equal(e.validator[:], q.operator) })
	return listPage(q, "unbonding_responses", "null", leaving, func(e unbondingEntry) string { return e.delegator.key() }, nil, q.unbonding)
}

// delegatorUnbondings answers with what a delegator takes out.
func delegatorUnbondings(q *query) error {
	leaving := where(q.unbondings, func(e unbondingEntry) bool { return bytes.Equal(e.delegator[:], q.delegator) })
	return listPage(q, "unbonding_responses", "null", leaving, func(e unbondingEntry) string { return e.validator.key() }, nil, q.unbonding)
}

// unbondingSingle answers with what is leaving one delegation.
func unbondingSingle(q *query) error {
	for _, e := range q.unbondings {
		if bytes.Equal(e.delegator[:], q.delegator) && bytes.Equal(e.validator[:], q.operator) {
			return q.object("unbond", func() { q.unbonding(e) })
		}
	}
	return q.noneFor("unbonding delegation")
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
	slices.SortFunc(moves, func(a, b redelegation) int { return cmp.Compare(a.key(), b.key()) })
	return moves
}

// key is both validators.
func (r redelegation) key() string { return r.from.key() + r.to.key() }

// redelegations answers with the redelegations of a delegator. Between a
// source and a destination there is one or a refusal, and no pagination; a
// source or a destination alone filters nothing.
func redelegations(q *query) error {
	from, err := optionalHex(q.request.SrcValidatorAddr)
	if err != nil {
		return err
	}
	to, err := optionalHex(q.request.DstValidatorAddr)
	if err != nil {
		return err
	}
	moves := where(q.moves, func(r redelegation) bool { return bytes.Equal(r.delegator[:], q.delegator) })
	if from == nil || to == nil {
		return listPage(q, "redelegation_responses", "[]", moves, redelegation.key, nil, q.move)
	}
	moves = where(moves, func(r redelegation) bool { return bytes.Equal(r.from[:], from) && bytes.Equal(r.to[:], to) })
	if len(moves) == 0 {
		return fmt.Errorf("rpc error: code = Internal desc = rpc error: code = NotFound desc = redelegation not found for delegator address %s from validator address %s",
			cosmos.Bech32(accountPrefix, q.delegator), cosmos.Bech32(validatorPrefix, from))
	}
	return q.object("redelegation_responses", func() { list(q, moves, "", q.move) })
}

func (q *query) move(r redelegation) {
	q.textf(`{"redelegation":{"delegator_address":"%s","validator_src_address":"%s","validator_dst_address":"%s","entries":null},"entries":[{"redelegation_entry":{"creation_height":94,"completion_time":%q,"initial_balance":"%d","shares_dst":"%s","unbonding_id":%d,"period_delegation_id":%q},"balance":"%d"}]}`,
		r.delegator, r.from, r.to, stamp(releaseTime), r.tokens, decimal{whole: r.tokens}, r.id, r.lot, r.tokens)
}

// optionalHex parses an address that may be left out.
func optionalHex(s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	return parseHex(s)
}
