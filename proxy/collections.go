package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/collections"
)

// A CollectionStore finds collections; *collections.Store is one.
type CollectionStore interface {
	// List returns one page. An *upstream.Error means that the store was silent.
	List(ctx context.Context, q collections.Query) (collections.Page, error)
}

// A MetadataProvider describes collections; *metadata.Service is one.
type MetadataProvider interface {
	// Lookup returns, by lower-case address, documented collectionMetadata
	// objects. It keeps its own time; degraded says that some are missing, or
	// older than they should be, and that asking again soon makes sense.
	Lookup(ctx context.Context, addresses []string) (found map[string]json.RawMessage, degraded bool)
}

// CollectionsOptions configure the collection listing. Store is required.
type CollectionsOptions struct {
	Store    CollectionStore
	Metadata MetadataProvider // nil: only what the store itself knows

	Keys   []Key // who may ask, of the chain too with Options.ChainAuth; none and not NoAuth: nobody. Server.SetKeys replaces them
	NoAuth bool  // anybody may ask

	// Progress is how far the store has come; nil: unknown. It is asked for on
	// every request.
	Progress func() StoreProgress

	Policy      cache.Policy  // in seconds; zero: fresh for 5 s, stale for a minute, an hour while the store fails
	DegradedTTL time.Duration // life of a page that lacks metadata it should have; default 5 s

	PublicURL string // scheme and host of $schema; "" takes those of the request
}

func (o CollectionsOptions) withDefaults() *CollectionsOptions {
	if o.Policy == (cache.Policy{}) {
		o.Policy = cache.Policy{Fresh: 5 * time.Second, Stale: time.Minute, StaleIfError: time.Hour, Keep: 2 * time.Hour}
	}
	if o.DegradedTTL == 0 {
		o.DegradedTTL = 5 * time.Second
	}
	return &o
}

// A lister serves the collection listing. A request goes, top to bottom:
//
//  1. keys.go says whose it is;
//  2. collections_body.go reads the body and validates it against the
//     schema of collections_schema.go;
//  3. collections_request.go makes of it the one spelling that is the cache key;
//  4. on a miss, the store is asked for the page and the metadata provider to
//     describe what is on it, which collections_page.go joins.
type lister struct {
	*Server
	*CollectionsOptions
	schema *listSchema
	memo   memo
}

// mountCollections mounts the listing and the documents that describe it.
func (s *Server) mountCollections(r *gin.Engine) {
	s.o.Collections = s.o.Collections.withDefaults()
	s.SetKeys(s.o.Collections.Keys)
	l := &lister{s, s.o.Collections, newListSchema(apiPrefix, documentSuffix), newMemo()}
	r.POST(apiPrefix+"collections", s.observed("collections", s.writeProblem, l.serve))
	s.explain.POST(apiPrefix+"collections", s.explained(s.writeProblem, l.explainList))
	l.schema.mount(r)
}

// serve answers one request.
func (l *lister) serve(c *gin.Context, rec *record) error {
	r, deadline := c.Request, rec.start.Add(l.o.RequestTimeout)
	if err := l.admit(c, rec); err != nil {
		return err
	}
	body, err := readListBody(c.Writer, r, deadline)
	if err != nil {
		return err
	}
	asked, err := l.memo.listing(body, l.schema.parse)
	if err != nil {
		return err
	}
	query := l.query(asked)
	if l.wantsAnew(r.Header) {
		query = anew(l.querySeconds(asked), rec.start) // the generation known may be a moment old
	}
	ctx := withLazyDeadline(r.Context(), deadline)
	defer ctx.release()
	res, err := l.o.Cache.Get(ctx, query, l.origin(asked))
	if err != nil {
		return err
	}
	until := l.lasts(query, res.Entry, time.Now())
	res.Entry = l.withSchema(query.Key, res.Entry, l.schemaURL(r, pageSchema))
	rec.result(res)
	rec.degraded = !res.Entry.Expires.IsZero()
	// The request is a query, and a POST only to have a body: If-None-Match gets
	// the 304 of a GET and saves the page, not the 412 of a change.
	l.respond(c.Writer, r, answer{
		Result: res, key: query.Key, policy: l.Policy, until: until, behind: l.progress().Behind, control: "private, no-cache",
	})
	return nil
}

// admit lets those pass who may ask.
func (l *lister) admit(c *gin.Context, rec *record) error {
	if l.NoAuth {
		return nil
	}
	return l.admitKey(c, rec)
}

// origin asks the store, then the provider, which is what a miss comes to.
func (l *lister) origin(asked listing) cache.Origin {
	return func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
		now := time.Now()
		page, err := l.list(ctx, asked)
		if err != nil {
			return nil, err
		}
		metadata, degraded := l.describe(ctx, page.Items)
		body := bytes.TrimSpace(encode(newListPage(asked, page, metadata)))
		edition := l.editionOf(page, now)
		e := &cache.Entry{Content: cache.NewContent(http.StatusOK, jsonType, describedBy(pageSchema), body, 0), Height: edition, ReadAt: now}
		if degraded {
			e.Expires = now.Add(l.DegradedTTL)
		} else if prev != nil && prev.ETag == e.ETag && prev.Expires.IsZero() {
			return prev.Confirm(edition, now), nil
		}
		return e, nil
	}
}

func (l *lister) list(ctx context.Context, asked listing) (collections.Page, error) {
	if asked.Nothing {
		return collections.Page{}, nil
	}
	page, err := l.Store.List(ctx, asked.Query)
	if err != nil {
		return page, fmt.Errorf("list collections: %w", err)
	}
	return page, nil
}

func (l *lister) describe(ctx context.Context, items []collections.Collection) (found map[string]json.RawMessage, degraded bool) {
	if l.Metadata == nil || len(items) == 0 {
		return nil, false
	}
	addresses := make([]string, len(items))
	for i, c := range items {
		addresses[i] = strings.ToLower(c.Address)
	}
	return l.Metadata.Lookup(ctx, addresses)
}

// withSchema puts $schema first into the body. What comes of it is kept with the
// page, and encoded like any other, for the few hosts that we are known by. The
// validator stays: what it vouches for is the page.
func (l *lister) withSchema(key string, e *cache.Entry, url string) *cache.Entry {
	content := l.o.Cache.Derived(key, e.Content, url, func(page *cache.Content) *cache.Content {
		quoted, _ := json.Marshal(url) // a string always encodes
		body := make([]byte, 0, len(page.Body)+len(quoted)+12)
		body = append(append(body, `{"$schema":`...), quoted...)
		body = append(append(body, ','), page.Body[1:]...)
		return &cache.Content{Status: page.Status, Type: page.Type, Link: page.Link, Body: body, ETag: page.ETag}
	})
	return &cache.Entry{Content: content, ReadAt: e.ReadAt, Expires: e.Expires} // its edition is no block
}
