package collections

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
)

// progress is the progress of the collection store at one moment.
type progress struct {
	Store      string        // identifies the store; "" if unknown, so that pages are not shared
	Generation int64         // newest known generation of the store; 0 if unknown, so that pages are fresh for a time
	Revision   string        // its revision
	Block      int64         // last block of the execution chain that the store has counted; 0 if none
	Behind     time.Duration // age of that block
	Filling    bool          // an indexer fills the store, which is still empty
}

func (h *Handler) progress() (p progress) {
	if h.o.Watch == nil {
		return p
	}
	m := h.o.Watch.Mark()
	if m == nil {
		return progress{Filling: h.o.Filled}
	}
	p.Store, p.Generation, p.Revision, p.Block = m.Store, m.Generation, m.Revision, m.Cursor.Block
	if m.Cursor.Chain != 0 {
		p.Behind = time.Since(m.Cursor.Time)
	} else {
		p.Filling = h.o.Filled && m.Total == 0
	}
	return p
}

// query returns the cache query for a page of the store that p names. If the store's generation is known, a page is fresh until the
// store changes, and its edition takes the place of the height of other entries.
func (h *Handler) query(l listing, p progress) cache.Query {
	q := cache.Query{Key: l.Key, Policy: h.o.Policy}
	q.Policy.StalePastExpires = true // a degraded page is better than an error
	if l.Nothing {
		return q
	}
	if l.Store == "" {
		q.Policy.Keep = 0
	}
	if p.Generation > 0 {
		q.Tip = h.edition(p.Generation, time.Now())
		// A read of the store takes milliseconds, so an outdated page is served only while reads fail.
		q.Policy.FreshBlocks, q.Policy.StaleBlocks, q.Policy.ErrorBlocks = 0, 0, math.MaxInt64
	}
	return q
}

// edition returns a number for the content of a page. It grows with the store's generation and, because pages contain
// metadata, with time.
func (h *Handler) edition(generation int64, now time.Time) int64 {
	return generation + now.UnixNano()/h.term()
}

// maxLag is how long another replica may know of a change of the store before this one.
const maxLag = 2 * time.Second

// isCurrent reports whether a page is from the store's newest known revision, or from a higher generation that another replica has
// read within maxLag. A fresh page may be from another state: another store had the same generation, a failover has lost the generation, or
// the clock of the replica that read the page is ahead.
func (h *Handler) isCurrent(e *cache.Entry, q *cache.Query, p progress, now time.Time) bool {
	if q.Tip == 0 {
		return true
	}
	s, _ := splitPage(e.Body)
	return string(s.Revision) == p.Revision || s.Generation > p.Generation && now.Sub(e.ReadAt).Abs() < maxLag
}

// find returns a page from the cache or the store.
func (h *Handler) find(ctx context.Context, l listing, q cache.Query, p progress) (cache.Result, error) {
	res, ok := h.cache.Fresh(q, time.Now(), nil)
	if !ok {
		var err error
		if res, err = h.cache.Get(ctx, q, pageLoader{h, l}); err != nil {
			return res, err
		}
	}
	if res.Outcome != cache.Hit || h.isCurrent(res.Entry, &q, p, time.Now()) {
		return res, nil
	}
	q.MaxHeight = res.Entry.Height - 1 // replaces the page
	found, err := h.cache.Get(ctx, q, pageLoader{h, l})
	if err != nil {
		res.Outcome, res.Err = cache.StaleError, err
		return res, nil //nolint:nilerr // the result has the error
	}
	return found, nil
}

// term is the maximum time for which a page is served unchanged, in nanoseconds.
func (h *Handler) term() int64 { return int64(max(h.o.Policy.Stale, time.Second)) }

// freshUntil returns when a page is read again although the store has not changed. It is zero for a page that is fresh for a
// time.
func (h *Handler) freshUntil(q cache.Query, e *cache.Entry, now time.Time) time.Time {
	switch {
	case q.Tip == 0:
		return time.Time{}
	case e.Height < q.Tip:
		return now
	default:
		return time.Unix(0, (now.UnixNano()/h.term()+1)*h.term())
	}
}

var errNotFilled = failure.BadInput("cannot wait for %s: no indexer fills this store", respond.MinEVMHeader)

// awaited returns the store's progress after it has counted the block that the client requires; 0 requires none. It fails if
// the client's request is invalid or the block does not arrive in time.
func (h *Handler) awaited(ctx context.Context, rec *record.Record, block int64) (progress, error) {
	p := h.progress()
	switch {
	case block <= p.Block:
		return p, nil
	case h.o.Watch == nil:
		return p, errNotFilled
	}
	leave, err := h.waiters.Enter(&rec.Client, time.Second)
	if err != nil {
		return p, err
	}
	defer leave()
	waiting, cancel := context.WithTimeout(ctx, limits.DefaultWait)
	defer cancel()
	began := time.Now()
	if err = h.o.Watch.Await(waiting, 0); err == nil { // the progress is known
		if p = h.progress(); p.Block == 0 && !p.Filling {
			return p, errNotFilled
		}
		err = h.o.Watch.Await(waiting, block)
	}
	rec.Waited += time.Since(began)
	if p = h.progress(); errors.Is(err, context.DeadlineExceeded) {
		err = &failure.Failure{
			Status: http.StatusGatewayTimeout, RetryAfter: time.Second, Err: err, Expected: true,
			Public: fmt.Sprintf("block %d has not been counted; the last one is %d", block, p.Block),
		}
	}
	return p, err
}

// holdsAt returns the last block that a page has counted: that of the state that it was read from, or a later one until which
// nothing was counted.
func (h *Handler) holdsAt(e *cache.Entry, q *cache.Query, p progress) int64 {
	s, _ := splitPage(e.Body)
	if q.Tip == 0 || string(s.Revision) == p.Revision {
		return max(s.Block, p.Block)
	}
	return s.Block
}

// covers refuses a page that has not counted the block that the client requires although the store has: an outdated page while
// the store fails, or a page from a lagging standby database.
func (h *Handler) covers(minBlock int64, res cache.Result, q *cache.Query, p progress) error {
	block := h.holdsAt(res.Entry, q, p)
	switch {
	case block >= minBlock:
		return nil
	case res.Err != nil:
		return res.Err
	}
	return &failure.Failure{
		Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
		Public: fmt.Sprintf("the page has counted block %d, not %d", block, minBlock),
	}
}

// answer sets a to the response with the result of a query at the progress.
func (h *Handler) answer(a *respond.Response, rec *record.Record, res cache.Result, query *cache.Query, p progress, schemaURL string, now time.Time) {
	a.Now = now
	a.Until, a.EVMBlock = h.freshUntil(*query, res.Entry, now), h.holdsAt(res.Entry, query, p)
	// The body with $schema is cached with the page and compressed like other bodies, because there are few hosts.
	content := h.cache.Derived(query.Key, res.Entry.Content, schemaURL, insertSchema)
	a.Backing = cache.Entry{Content: content, ReadAt: res.Entry.ReadAt, Expires: res.Entry.Expires} // an edition is not a block
	res.Entry = &a.Backing
	rec.Result(res)
	rec.Degraded = !res.Entry.Expires.IsZero()
	a.Result, a.Key, a.Policy = res, query.Key, h.o.Policy
	a.Behind, a.Control = p.Behind, respond.OwnAnswer
}

// insertSchema returns a page with $schema at its beginning, and without the state that it was read from.
func insertSchema(cached *cache.Content, url string) *cache.Content {
	_, page := splitPage(cached.Body)
	quoted, _ := json.Marshal(url) // a string always encodes
	body := make([]byte, 0, len(page)+len(quoted)+12)
	body = append(append(body, `{"$schema":`...), quoted...)
	body = append(append(body, ','), bytes.TrimPrefix(page, []byte("{"))...)
	return cache.NewContent(cached.Status, cached.Type, describedBy(url), body, cached.Source)
}

// A repeatedListing answers a repeated request for a listing.
type repeatedListing struct {
	*Handler
	listing   listing
	minBlock  int64 // block of the execution chain that the client requires
	schemaURL string
}

func (m *repeatedListing) Replay(rec *record.Record, a *respond.Response) bool {
	p := m.progress()
	if p.Block < m.minBlock || p.Store != m.listing.Store {
		return false
	}
	query := m.query(m.listing, p)
	res, ok := m.cache.Fresh(query, rec.Start, record.LaneMayServe)
	if !ok || !m.isCurrent(res.Entry, &query, p, rec.Start) || m.covers(m.minBlock, res, &query, p) != nil {
		return false
	}
	m.answer(a, rec, res, &query, p, m.schemaURL, rec.Start)
	return true
}
