package devnet

import (
	"fmt"
	"slices"
	"time"
)

// periodTerms is how long the lots of each period type run.
var periodTerms = [...]time.Duration{
	0, 2 * time.Minute, 31_104_000 * time.Second, 46_656_000 * time.Second,
}

// lots are those of the stake in the path, if any: what events added is in the first.
func (q *query) lots() []lot {
	if q.stake == nil {
		return nil
	}
	lots := slices.Clone(q.stake.lots)
	lots[0].added = q.added(q.validator, q.stake)
	return lots
}

func (q *query) lot(l lot) {
	v, period, tokens := q.validator, "", l.Tokens+l.added
	if l.Period != 0 {
		period = fmt.Sprintf(`"period_type":%d,`, l.Period)
	}
	q.textf(`{"period_delegation":{"delegator_address":"%s","validator_address":"%s","period_delegation_id":"%s","shares":"%s","rewards_shares":"%s",%s"end_time":%q},"balance":{"denom":"stake","amount":"%d"}}`,
		q.stake.delegator, v.Operator, l.ID, decimal{whole: tokens}, v.share(l.Tokens, l.Period).add(v.share(l.added, 0)), period, stamp(createdTime.Add(periodTerms[l.Period])), v.worth(tokens))
}

// periodDelegations answers with the lots of a pair.
func periodDelegations(q *query) error {
	return listPage(q, "period_delegation_responses", "[]", q.lots(), func(l lot) string { return l.ID }, nil, q.lot)
}

// periodDelegation answers with one lot of a pair.
func periodDelegation(q *query) error {
	lots := q.lots()
	i := slices.IndexFunc(lots, func(l lot) bool { return l.ID == q.http.PathValue("id") })
	if i < 0 {
		return internal(errNoPeriod)
	}
	return q.object("period_delegation_response", func() { q.lot(lots[i]) })
}
