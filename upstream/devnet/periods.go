package devnet

import (
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

// lotsOf are the lots of a stake at this height: what events added is in the first.
func (s state) lotsOf(v *validator, k *stake) []lot {
	lots := slices.Clone(k.lots)
	if len(lots) == 0 {
		lots = []lot{{id: "0", tokens: k.tokens, period: k.period}}
		if k.period != 0 {
			lots[0].id = strconv.Itoa(2000 + k.slot)
		}
	}
	lots[0].tokens += s.added(v, k)
	return lots
}

func (s state) appendLot(b []byte, v *validator, delegator address, l lot) []byte {
	b = append(b, `{"period_delegation":{"delegator_address":"`...)
	b = delegator.appendTo(b)
	b = append(b, `","validator_address":"`...)
	b = v.operator.appendTo(b)
	b = append(b, `","period_delegation_id":"`...)
	b = append(b, l.id...)
	b = append(b, `","shares":"`...)
	b = decimal{whole: l.tokens}.appendTo(b)
	b = append(b, `","rewards_shares":"`...)
	b = v.share(l.tokens, l.period).appendTo(b)
	if l.period != 0 {
		b = append(b, `","period_type":`...)
		b = append(strconv.AppendUint(b, uint64(l.period), 10), `,"end_time":"`...)
	} else {
		b = append(b, `","end_time":"`...)
	}
	b = createdTime.Add(periodTerms[l.period]).AppendFormat(b, time.RFC3339Nano)
	b = append(b, `"},"balance":`...)
	return append(appendCoin(b, v.worth(l.tokens)), '}')
}

// periodDelegations answers with the lots of a pair.
func periodDelegations(q *query) error {
	p, err := q.pair(1, 0)
	if err != nil {
		return err
	}
	var lots []lot
	if p.stake != nil {
		lots = q.lotsOf(p.validator, p.stake)
	}
	page, err := paginate(q.request.Pagination, lots, func(l lot) []byte { return []byte(l.id) }, nil)
	if err != nil {
		return err
	}
	q.list(`{"period_delegation_responses":`, len(page.items), "[]", func(i int) {
		q.out = q.appendLot(q.out, p.validator, p.stake.delegator, page.items[i])
	})
	q.pagination(page.next, page.total)
	return nil
}

// periodDelegation answers with one lot of a pair.
func periodDelegation(q *query) error {
	p, err := q.pair(1, 0)
	if err != nil {
		return err
	}
	if p.stake == nil {
		return errNoPeriod.rpc()
	}
	lots := q.lotsOf(p.validator, p.stake)
	i := slices.IndexFunc(lots, func(l lot) bool { return l.id == q.vars[2] })
	if i < 0 {
		return errNoPeriod.rpc()
	}
	q.text(`{"period_delegation_response":`)
	q.out = q.appendLot(q.out, p.validator, p.stake.delegator, lots[i])
	q.text("}")
	return nil
}
