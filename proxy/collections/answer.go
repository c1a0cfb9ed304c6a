package collections

import (
	"encoding/json"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
)

// answer makes of a what a result comes to, of a query by the progress.
func (h *Handler) answer(a *web.Answer, rec *web.Record, res cache.Result, query *cache.Query, p Progress, schemaURL string, now time.Time) {
	a.Now = now
	a.Until, a.EVMBlock = h.freshUntil(*query, res.Entry, now), h.holdsAt(res.Entry, query, p)
	a.Own = h.withSchema(query.Key, res.Entry, schemaURL)
	res.Entry = &a.Own
	rec.Result(res)
	rec.Degraded = !res.Entry.Expires.IsZero()
	a.Result, a.Key, a.Policy = res, query.Key, h.o.Policy
	a.Behind, a.Control = p.Behind, web.OwnAnswer
}

// withSchema puts $schema first into the body. What comes of it is kept with the
// page, and encoded like any other, for the few hosts that we are known by. The
// validator stays: what it vouches for is the page.
func (h *Handler) withSchema(key string, e *cache.Entry, url string) cache.Entry {
	content := h.cache.Derived(key, e.Content, url, naming)
	return cache.Entry{Content: content, ReadAt: e.ReadAt, Expires: e.Expires} // its edition is no block
}

// naming makes of a page one that names the URL of its schema.
func naming(page *cache.Content, url string) *cache.Content {
	quoted, _ := json.Marshal(url) // a string always encodes
	body := make([]byte, 0, len(page.Body)+len(quoted)+12)
	body = append(append(body, `{"$schema":`...), quoted...)
	body = append(append(body, ','), page.Body[1:]...)
	return &cache.Content{Status: page.Status, Type: page.Type, Link: page.Link, Body: body, ETag: page.ETag}
}

// A replayer answers a request for a listing again.
type replayer struct {
	*Handler
	asked     listing
	least     int64 // block of the execution chain that the client has to see
	schemaURL string
}

// Replay answers from the page that memory has.
func (m *replayer) Replay(rec *web.Record, a *web.Answer) bool {
	p := m.progress()
	if p.Block < m.least {
		return false
	}
	query := m.query(m.asked, p)
	res, ok := m.cache.Fresh(query, rec.Start, web.Repeats)
	if ok {
		m.answer(a, rec, res, &query, p, m.schemaURL, rec.Start)
	}
	return ok
}
