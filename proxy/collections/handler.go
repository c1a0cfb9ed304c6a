// Package collections implements the API for listing collections.
//
// A request takes these steps:
//
//  1. handler.go checks the API key and calls the next steps in order.
//  2. request.go reads the body and normalizes it for the cache key. validate.go validates it.
//  3. answer.go determines the freshness of a page by the store's progress, waits for a block that the client
//     requires, and builds the response from the page.
//  4. On a miss, page.go reads the page from the store and its descriptions from the metadata provider, and joins
//     them. The descriptions are cached as well.
//
// problem.go writes errors as problems (RFC 9457).
package collections

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	store "github.com/tipcache/tipcache/upstream/collections"
)

// Path is the path of the listing. Prefix is the prefix of all paths of the API.
const (
	Prefix = "/api/v4/"
	Path   = Prefix + "collections"
)

// A finder lists collections. It is implemented by *store.Store.
type finder interface {
	// List returns one page. An *upstream.Error means that the store failed.
	List(ctx context.Context, q store.Query) (store.Page, error)
}

// A watch provides the store's progress for every request. It is implemented by *store.Watch.
type watch interface {
	Mark() *store.Mark                                   // returns nil until it is known
	Await(ctx context.Context, block int64) (late error) // waits until the store has counted a block or ctx ends
}

// A MetadataProvider describes collections. It is implemented by *metadata.Service.
type MetadataProvider interface {
	// Lookup returns documented collectionMetadata objects by lower-case address within its own time limit. degraded
	// reports whether some are missing or outdated and a later Lookup may return more.
	Lookup(ctx context.Context, addresses []string) (found map[string]json.RawMessage, degraded bool)
}

// Options configure a Handler.
type Options struct {
	Store    finder           // nil refuses every request
	Metadata MetadataProvider // nil uses only the store's own metadata
	NoAuth   bool             // requests need no key

	Watch  watch // progress of Store; nil if unknown, so that requests cannot wait for blocks
	Filled bool  // an indexer of this process fills Store

	Policy cache.Policy // zero means fresh for 5 s, stale for a minute, and for an hour while the store fails
}

// degradedLife is the lifetime of a page with missing metadata.
const degradedLife = 5 * time.Second

// WithDefaults replaces zero values by the defaults.
func (o Options) WithDefaults() Options {
	o.Policy = cmp.Or(o.Policy, cache.Policy{Fresh: 5 * time.Second, Stale: time.Minute, StaleIfError: time.Hour, Keep: time.Hour})
	return o
}

// A Handler serves the collection listing. It starts no goroutines.
type Handler struct {
	o      Options
	stack  *web.Stack
	cache  *cache.Cache
	schema *listSchema

	waiters *limits.Places
}

// New returns a handler.
func New(o Options, stack *web.Stack, c *cache.Cache) *Handler {
	return &Handler{
		o: o.WithDefaults(), stack: stack, cache: c, schema: newListSchema(Prefix, documentSuffix), waiters: stack.Admission.NewWaiters(),
	}
}

// Routes returns the paths to mount: the listing and the schemas of its bodies.
func (h *Handler) Routes() []web.Route {
	return append(h.schemas(), web.Route{
		Name:    "collections",
		Methods: []string{http.MethodPost, web.MethodQuery},
		Pattern: Path,
		Keyed:   !h.o.NoAuth,
		Serve:   h.serve,
		Render:  h.RenderProblem,
		Plan:    h.plan,
	})
}

func (h *Handler) serve(r *web.Request) error {
	rec := &r.Record
	deadline := h.stack.Deadline(rec.Start)
	if h.o.Store == nil {
		return errClosed
	}
	l, minBlock, err := h.readRequest(r, deadline)
	if err != nil {
		return err
	}
	ctx := upstream.WithLazyDeadline(r.Context(), deadline)
	defer ctx.Release()
	progress, err := h.awaited(ctx, rec, minBlock)
	if err != nil {
		return err
	}
	l = l.in(progress.Store)
	query := h.query(l, progress)
	if rec.LaneSlot != nil {
		rec.Replayer = &repeatedListing{h, l, minBlock, h.schemaURL(r, PageSchema)}
	}
	if !h.stack.Admission.IsMany(&rec.Client) {
		query.Client = rec.Client.Name()
	}
	res, err := h.find(ctx, l, query, progress)
	if err != nil {
		return err
	}
	if err := h.covers(minBlock, res, &query, progress); err != nil {
		return err
	}
	// The request only reads and is a POST only because it has a body. So If-None-Match returns 304 as for a GET, and not
	// 412 as for a change.
	var a respond.Response
	h.answer(&a, rec, res, &query, progress, h.schemaURL(r, PageSchema), time.Now())
	res.Entry = nil
	h.stack.Responder.Respond(r.Writer, r.Request, &a)
	return nil
}

func (h *Handler) plan(r *web.Request) (web.Plan, error) {
	l, _, err := h.readRequest(r, h.stack.Deadline(time.Now()))
	if err != nil {
		return web.Plan{}, err
	}
	p := h.progress()
	return web.Plan{Route: "collections", Class: "collections", Asks: "the store for " + l.String(), Origin: "the store", Query: h.query(l.in(p.Store), p)}, nil
}
