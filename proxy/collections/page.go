package collections

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/respond"
	store "github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
)

// A listPage is the body of a response. It is cached without $schema, which depends on the request's host.
type listPage struct {
	Schema     string             `json:"$schema,omitempty" format:"uri-reference" required:"true" doc:"A URL to the JSON Schema for this object."`
	Data       []store.Collection `json:"data" nullable:"false" doc:"The collections of this page."`
	Pagination pageWindow         `json:"pagination"`
}

type pageWindow struct {
	Offset  int   `json:"offset" doc:"Number of skipped collections."`
	Limit   int   `json:"limit" doc:"Maximum number of collections on the page."`
	Total   int64 `json:"total" doc:"Number of collections on all pages."`
	HasMore bool  `json:"hasMore" doc:"Whether another page follows."`
}

func newListPage(l listing, page store.Page, metadata map[string]json.RawMessage) listPage {
	data := make([]store.Collection, len(page.Items))
	for i, c := range page.Items {
		c.UpdatedAt, c.CreatedAt = c.UpdatedAt.UTC(), c.CreatedAt.UTC()
		c.Metadata = firstRecord(metadata[c.Key()], c.Metadata)
		data[i] = c
	}
	return listPage{Data: data, Pagination: pageWindow{
		Offset:  l.Offset,
		Limit:   l.Limit,
		Total:   page.Total,
		HasMore: page.Total-int64(l.Offset) > int64(len(data)), // both are at least 0, so the subtraction cannot overflow
	}}
}

// firstRecord returns the first non-empty JSON object, of the provider's record and then the store's.
func firstRecord(records ...json.RawMessage) json.RawMessage {
	for _, r := range records {
		if len(r) > len("{}") && r[0] == '{' && json.Valid(r) {
			return r
		}
	}
	return json.RawMessage("{}")
}

// A pageLoader reads a page from the store and then its metadata.
type pageLoader struct {
	h *Handler
	l listing
}

// Expected implements [cache.Loader].
func (pageLoader) Expected(bool) time.Duration { return 0 }

// Load implements [cache.Loader].
func (p pageLoader) Load(ctx context.Context, how cache.How) (*cache.Entry, error) {
	now, h, before := time.Now(), p.h, how.Before
	var page store.Page
	if !p.l.Nothing {
		var err error
		if page, err = h.o.Store.List(ctx, p.l.Query); err != nil {
			return nil, fmt.Errorf("list collections: %w", err)
		}
	}
	if page.Total == 0 && h.progress().Filling {
		return nil, errFilling
	}
	metadata, degraded := h.describe(ctx, page.Items)
	body := encodePage(snapshot{page.Generation, page.Block, []byte(page.Revision)}, newListPage(p.l, page, metadata))
	edition := int64(0) // unknown
	if h.o.Watch != nil && page.Generation > 0 {
		edition = h.edition(page.Generation, now)
	}
	e := &cache.Entry{Content: cache.NewContent(http.StatusOK, respond.JSON, "", body, cache.Lasting), Height: edition, ReadAt: now}
	if degraded {
		e.Expires = now.Add(degradedLife)
	} else if before != nil && before.Expires.IsZero() && isSamePage(before.Body, body) {
		return before.Confirm(edition, now), nil
	}
	return e, nil
}

func (h *Handler) describe(ctx context.Context, items []store.Collection) (found map[string]json.RawMessage, degraded bool) {
	if h.o.Metadata == nil || len(items) == 0 {
		return nil, false
	}
	addresses := make([]string, len(items))
	for i, c := range items {
		addresses[i] = c.Key()
	}
	return h.o.Metadata.Lookup(ctx, addresses)
}

// A snapshot is the state of the store that a page was read from. It is zero if another server fills the store.
type snapshot struct {
	Generation, Block int64
	Revision          []byte
}

// encodePage returns the body of a cached page: a line with the snapshot, and the page without $schema.
func encodePage(s snapshot, page listPage) []byte {
	return append(fmt.Appendf(nil, "%d %d %s\n", s.Generation, s.Block, s.Revision), bytes.TrimSpace(encode(page))...)
}

// splitPage returns the parts of the body of a cached page. A malformed line has a zero snapshot.
func splitPage(body []byte) (s snapshot, page []byte) {
	line, page, _ := bytes.Cut(body, []byte("\n"))
	generation, rest, _ := bytes.Cut(line, []byte(" "))
	block, revision, _ := bytes.Cut(rest, []byte(" "))
	var err1, err2 error
	s.Generation, err1 = strconv.ParseInt(string(generation), 10, 64)
	s.Block, err2 = strconv.ParseInt(string(block), 10, 64)
	if err1 != nil || err2 != nil {
		return snapshot{}, page
	}
	s.Revision = revision
	return s, page
}

// isSamePage reports whether two cached pages are equal and from the same revision, and so also from blocks between which
// nothing was counted.
func isSamePage(a, b []byte) bool {
	ofA, pageA := splitPage(a)
	ofB, pageB := splitPage(b)
	return bytes.Equal(ofA.Revision, ofB.Revision) && bytes.Equal(pageA, pageB)
}

// encode encodes a value that always encodes.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // no channels, functions, cycles or foreign JSON in it
	return b.Bytes()
}

// metadataKeep is how long the shared cache keeps a record: longer than package metadata serves one while the provider
// fails.
const metadataKeep = 40 * 24 * time.Hour

// A MetadataStore stores the metadata records of a chain in the cache, which all replicas share.
type MetadataStore struct {
	Cache *cache.Cache
	Chain string
}

func (s MetadataStore) key(address string) string { return "meta/" + s.Chain + "/" + address }

// Load returns the cached records by lower-case address.
func (s MetadataStore) Load(ctx context.Context, addresses []string) map[string]metadata.Record {
	keys := make([]string, len(addresses))
	for i, a := range addresses {
		keys[i] = s.key(a)
	}
	entries := s.Cache.Load(ctx, keys)
	records := make(map[string]metadata.Record, len(entries))
	for i, a := range addresses {
		if e := entries[keys[i]]; e != nil {
			records[a] = metadata.Record{Body: e.Body, ReadAt: e.ReadAt}
		}
	}
	return records
}

// Save caches the records.
func (s MetadataStore) Save(ctx context.Context, records map[string]metadata.Record) {
	entries := make(map[string]*cache.Entry, len(records))
	for a, r := range records {
		entries[s.key(a)] = &cache.Entry{Content: cache.NewContent(http.StatusOK, respond.JSON, "", r.Body, 0), ReadAt: r.ReadAt}
	}
	s.Cache.Save(ctx, entries, metadataKeep)
}
