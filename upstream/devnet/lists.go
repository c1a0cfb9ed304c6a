package devnet

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// A listing is a list of which a request gets a page.
type listing struct {
	name, none string // of the member, and what it is without items: "" leaves it out
	all        func(*query) []about
	key        func(about) string // the list is ordered by it
	item       answer
	keep       func(*query) func(about) bool // nil: all of them
}

// page answers with the page that is asked for.
func (l listing) page(q *query) error {
	p, all, keep := q.request.Pagination, l.all(q), func(about) bool { return true }
	if l.keep != nil {
		keep = l.keep(q)
	}
	if p.Key != "" && p.Offset == 0 && p.Reverse {
		p = descend(p, all, l.key)
	}
	items, next, total, err := cosmos.Paginate(cosmos.Page(p), all, l.key, keep)
	if err != nil {
		return internal(err)
	}
	q.text("{")
	if len(items) > 0 || l.none != "" {
		q.text(`"`, l.name, `":`)
		q.list(items, l.none, l.item)
		q.text(",")
	}
	var members []string
	if next != "" {
		members = append(members, fmt.Sprintf(`"next_key":%q`, base64Text([]byte(next))))
	}
	if total > 0 {
		members = append(members, fmt.Sprintf(`"total":"%d"`, total))
	}
	q.text(`"pagination":{`, strings.Join(members, ","), "}}")
	return nil
}

// A pagination is what a request says about the page it wants. The names of
// the type and its fields are in the node's texts about malformed bodies.
type pagination cosmos.Page

// descend is where a descending page begins. The node looks one item ahead of
// its key without checking: on the last item it panics, and the connection is
// dropped; from between two items it begins at the upper one.
func descend(p pagination, all []about, key func(about) string) pagination {
	from := sort.Search(len(all), func(i int) bool { return key(all[i]) >= p.Key })
	if from == len(all)-1 {
		panic(http.ErrAbortHandler)
	}
	if from < len(all) {
		p.Key = key(all[from])
	}
	return p
}

// list appends a JSON list; none is what an empty one is.
func (q *query) list(all []about, none string, item answer) {
	if len(all) == 0 {
		q.text(none)
		return
	}
	between := "["
	for _, q.about = range all {
		q.text(between)
		_ = item(q) // messages never fail
		between = ","
	}
	q.text("]")
}

func byOperator(a about) string { return a.validator.Operator.key() }

// validatorsAt are those in the list at this height.
func validatorsAt(q *query) (all []about) {
	for _, v := range q.validators {
		if q.chain.turnover == 0 || noise(q.seed, "turnover", int(q.height)*len(q.validators)+v.index, uint64(q.chain.turnover)) != 0 {
			all = append(all, about{validator: v})
		}
	}
	return all
}

// statusFilter are the names of the states in queries.
var statusFilter = map[string]int{
	"": 0, "BOND_STATUS_UNBONDED": unbonded, "BOND_STATUS_UNBONDING": unbonding, "BOND_STATUS_BONDED": bonded,
}

// validatorList answers with the validators in a state.
func validatorList(q *query) error {
	status, known := statusFilter[q.request.Status]
	if !known {
		return fmt.Errorf("rpc error: code = InvalidArgument desc = invalid validator status %s", q.request.Status)
	}
	return listing{"validators", "null", validatorsAt, byOperator, validatorItem, func(*query) func(about) bool {
		return func(a about) bool { return status == 0 || a.validator.Status == status }
	}}.page(q)
}

// stakesAt are the delegations to the validator of the path. The page keys of its list are
// addresses without the length that other lists put before them.
func stakesAt(q *query) []about {
	if q.validator == nil {
		return nil
	}
	all := make([]about, len(q.validator.stakes))
	for i := range all {
		all[i] = about{validator: q.validator, stake: &q.validator.stakes[i]}
	}
	return all
}

// stakesOf are the delegations of the delegator of the path.
func stakesOf(q *query) (all []about) {
	for _, v := range q.accounts[string(q.delegator)] {
		all = append(all, about{validator: v, stake: v.find(q.delegator)})
	}
	return all
}

// lots are those of the stake in the path, if any: what events added is in the first.
func lots(q *query) (all []about) {
	if q.stake == nil {
		return nil
	}
	for i, l := range q.stake.lots {
		if i == 0 {
			l.Tokens += q.added(q.validator, q.stake)
		}
		all = append(all, about{validator: q.validator, stake: q.stake, lot: &l})
	}
	return all
}

// slashes are those of the validator of the path, who was slashed once if at all.
func slashes(q *query) []about {
	if q.validator == nil || q.validator.Slash == 0 {
		return nil
	}
	return []about{q.about}
}

func (v *validator) slashPeriod() uint64 { return 235 + uint64(v.index) }

// bySlash is the key of a slash: the height and the period.
func bySlash(a about) string {
	return string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, a.validator.SlashedAt), a.validator.slashPeriod()))
}

// slashedWithin keeps the slashes between the heights that are asked for.
func slashedWithin(q *query) func(about) bool {
	return func(a about) bool {
		return q.request.StartingHeight <= a.validator.SlashedAt && a.validator.SlashedAt <= q.request.EndingHeight
	}
}

// A record is a recorded item of a list and the addresses that it is found by.
type record struct {
	Delegator, Validator address
	To                   address // of a redelegation, whose validator is the source
	Item                 json.RawMessage
}

// found are the records with a delegator and a validator, nil for any.
func (q *query) found(all []record, delegator, validator []byte) (found []about) {
	for i := range all {
		r := &all[i]
		if q.height >= singularity && (delegator == nil || bytes.Equal(r.Delegator[:], delegator)) && (validator == nil || bytes.Equal(r.Validator[:], validator)) {
			found = append(found, about{record: r})
		}
	}
	return found
}

func unbondingsAt(q *query) []about { return q.found(recorded().Unbondings, nil, q.operator) }
func unbondingsOf(q *query) []about { return q.found(recorded().Unbondings, q.delegator, nil) }

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
	if from == nil || to == nil {
		return listing{"redelegation_responses", "[]", func(q *query) []about { return q.found(recorded().Redelegations, q.delegator, nil) },
			func(a about) string { return a.record.Validator.key() + a.record.To.key() }, recordItem, nil}.page(q)
	}
	moves := slices.DeleteFunc(q.found(recorded().Redelegations, q.delegator, from), func(a about) bool { return !bytes.Equal(a.record.To[:], to) })
	if len(moves) == 0 {
		return fmt.Errorf("rpc error: code = Internal desc = rpc error: code = NotFound desc = redelegation not found for delegator address %s from validator address %s",
			cosmos.Bech32(accountPrefix, q.delegator), cosmos.Bech32(validatorPrefix, from))
	}
	q.text(`{"redelegation_responses":`)
	q.list(moves, "", recordItem)
	q.text("}")
	return nil
}

// optionalHex parses an address that may be left out.
func optionalHex(s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	return parseHex(s)
}

// queueLengths are how many withdrawals wait, for four blocks each, over and over.
var queueLengths = [...]int64{0, 0, 0, 1, 0, 2, 0, 142}

// withdrawals answers with what waits to be paid out on the execution chain, by its recording. A stake
// that waits alone is the community's share.
func withdrawals(one, many string) answer {
	says := map[bool]answer{true: says(one), false: says(many)}
	return func(q *query) error {
		span := q.height / 4
		length := queueLengths[span%int64(len(queueLengths))]
		waiting := func(q *query) (all []about) {
			for i := range length {
				all = append(all, about{validator: q.validators[i%int64(len(q.validators))], number: i})
			}
			return all
		}
		key := func(a about) string {
			return string(binary.BigEndian.AppendUint64(nil, uint64(span)*200+uint64(a.number)))
		} //nolint:gosec // neither is negative
		return listing{"withdrawals", "", waiting, key, says[length == 1], nil}.page(q)
	}
}
