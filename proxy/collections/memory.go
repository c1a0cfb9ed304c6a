package collections

import "github.com/tipcache/tipcache/proxy/web"

// A memory answers a request for a listing again.
type memory struct {
	*Handler
	asked     listing
	least     int64 // block of the execution chain that the client has to see
	schemaURL string
}

// Recall answers from the page that memory has.
func (m *memory) Recall(rec *web.Record, a *web.Answer) bool {
	p := m.progress()
	if p.Block < m.least {
		return false
	}
	query := m.query(m.asked, p)
	res, ok := m.cache.Fresh(query, rec.Start)
	if ok {
		m.answer(a, rec, res, &query, p, m.schemaURL, rec.Start)
	}
	return ok
}
