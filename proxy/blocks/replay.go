package blocks

import (
	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
)

// repeatedQuery serves a query again, at the newest block or at the height that it names. It does not repeat pages
// of a walk.
type repeatedQuery struct {
	*Reader
	q      *Read
	usable func(*cache.Entry) bool
}

// Replayer returns a Replayer that serves q from entries that usable accepts.
func (r *Reader) Replayer(q *Read, usable func(*cache.Entry) bool) record.Replayer {
	return &repeatedQuery{r, q, usable}
}

// Replay implements [record.Replayer].
func (m *repeatedQuery) Replay(rec *record.Record, res *respond.Response) (ok bool) {
	var a Result
	a.Tip, a.pinned = m.Nodes.Tip(), m.q.Pinned > 0
	rec.Session.Resume(m.Nodes)
	if m.mustWait(m.q, rec, a.Tip) {
		return false
	}
	a.Query = m.cacheQuery(m.q, a.Tip)
	markStaleBeforeSession(&a.Query, rec)
	if a.Result, ok = m.cache.Fresh(a.Query, rec.Start, m.usable); ok {
		rec.Tip, rec.Pinned = a.Tip.Height, a.pinned
		m.describe(res, rec, m.q, &a, rec.Start)
	}
	return ok
}
