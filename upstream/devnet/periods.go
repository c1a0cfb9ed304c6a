package devnet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// periodTerms is how long the lots of each period type run.
var periodTerms = [...]time.Duration{
	0, 2 * time.Minute, 31_104_000 * time.Second, 46_656_000 * time.Second,
}

// everyPeriod is a stake with a lot of every type.
func everyPeriod() []lot {
	return []lot{
		{"0", 3_253 * billion, 0},
		{"976", 6_000 * billion, 1},
		{"977", 7_000 * billion, 2},
		{"978", 8_000 * billion, 3},
	}
}

// manyLots is a stake of 129 lots, more than fit on a page. Lots are ordered
// by their id as a text: 1000 stands before 980.
func manyLots() []lot {
	var lots []lot
	for id := uint64(980); id <= 1108; id++ {
		lots = append(lots, lot{strconv.FormatUint(id, 10), (1_025 + id - 980) * billion, uint8((id-1)%3 + 1)})
	}
	slices.SortFunc(lots, func(a, b lot) int { return strings.Compare(a.id, b.id) })
	return lots
}

// lots are those of the stake in the path, if any: what events added is in the first.
func (q *query) lots() []lot {
	k := q.stake
	if k == nil {
		return nil
	}
	lots := slices.Clone(k.lots)
	if len(lots) == 0 {
		lots = []lot{{id: "0", tokens: k.tokens, period: k.period}}
		if k.period != 0 {
			lots[0].id = strconv.Itoa(2000 + k.slot)
		}
	}
	lots[0].tokens += q.added(q.validator, k)
	return lots
}

func (q *query) lot(l lot) {
	v, period := q.validator, ""
	if l.period != 0 {
		period = fmt.Sprintf(`"period_type":%d,`, l.period)
	}
	q.textf(`{"period_delegation":{"delegator_address":"%s","validator_address":"%s","period_delegation_id":"%s","shares":"%s","rewards_shares":"%s",%s"end_time":%q},"balance":{"denom":"stake","amount":"%d"}}`,
		q.stake.delegator, v.operator, l.id, decimal{whole: l.tokens}, v.share(l.tokens, l.period), period, stamp(createdTime.Add(periodTerms[l.period])), v.worth(l.tokens))
}

// periodDelegations answers with the lots of a pair.
func periodDelegations(q *query) error {
	return listPage(q, "period_delegation_responses", "[]", q.lots(), func(l lot) string { return l.id }, nil, q.lot)
}

// periodDelegation answers with one lot of a pair.
func periodDelegation(q *query) error {
	lots := q.lots()
	i := slices.IndexFunc(lots, func(l lot) bool { return l.id == q.http.PathValue("id") })
	if i < 0 {
		return errNoPeriod.rpc()
	}
	return q.object("period_delegation_response", func() { q.lot(lots[i]) })
}
