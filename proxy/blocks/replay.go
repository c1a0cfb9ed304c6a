package blocks

import (
	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
)

// A replayer answers a query again, at the newest block or at the one that it
// names. Pages of a walk are not among these queries.
type replayer struct {
	*Reader
	q  *Query
	of func(*cache.Entry) (use bool)
}

// Replayer answers a query again by entries that are of use to the interface, which writes the answers
// itself.
func (r *Reader) Replayer(q *Query, of func(*cache.Entry) (use bool)) web.Replayer {
	return &replayer{r, q, of}
}

// Replay answers as long as memory can.
func (m *replayer) Replay(rec *web.Record, told *web.Answer) (ok bool) {
	var a Answer
	a.Tip, a.pinned = m.Nodes.Tip(), m.q.Pinned > 0
	m.resume(rec)
	if m.waits(m.q, rec, a.Tip) {
		return false
	}
	a.Asked = m.asked(m.q, a.Tip)
	narrow(&a.Asked, rec)
	if a.Result, ok = m.cache.Fresh(a.Asked, rec.Start, m.of); ok {
		rec.Tip, rec.Pinned = a.Tip.Height, a.pinned
		m.tell(told, rec, m.q, &a, rec.Start)
	}
	return ok
}

var _ web.Replayer = (*replayer)(nil)
