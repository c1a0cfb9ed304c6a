package chain

import "github.com/tipcache/tipcache/proxy/web"

// A memory answers a request of an endpoint again, at the newest block or at the
// one that it names. Pages of a walk are not among these requests.
type memory struct {
	*endpoint
	asked cacheRequest
	heights
}

// Recall answers as long as memory can.
func (m *memory) Recall(rec *web.Record, a *web.Answer) bool {
	tip := m.o.Nodes.Tip()
	if m.Waits(rec, m.pinned, m.min, tip) || tip.Known && m.pinned > tip.Height && !m.asSent {
		return false
	}
	query := m.query(m.asked, m.heights, tip)
	res, ok := m.cache.Fresh(query, rec.Start)
	if ok {
		rec.Tip, rec.Pinned = tip.Height, m.pinned > 0
		*a = m.Answer(rec, res, &query, tip, rec.Start)
	}
	return ok
}
