// Package collections is the interface to the listing of collections.
//
// A request goes, top to bottom:
//
//  1. handler.go checks its API key, and calls the following in their order;
//  2. request.go reads the body and makes of it the one spelling that is the cache
//     key, unless it remembers what the same bytes asked for; schema.go validates it;
//  3. answer.go says how fresh a page is by how far the store has come, waits for a
//     block that the client has to see, and makes an answer of the page;
//  4. on a miss, page.go asks the store for the page and the metadata provider to
//     describe what is on it, and joins them. It keeps in the cache what that said.
//
// Whatever fails on the way is written as a problem by problem.go.
package collections

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/maypok86/otter/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	store "github.com/tipcache/tipcache/upstream/collections"
)

// Path is the path of the listing, and Prefix begins every path of the interface.
const (
	Prefix = "/api/v4/"
	Path   = Prefix + "collections"
)

// A finder finds collections; upstream/collections has one.
type finder interface {
	// List returns one page. An *upstream.Error means that the store was silent.
	List(ctx context.Context, q store.Query) (store.Page, error)
}

// A watch knows how far the store has come; *store.Watch is one. It is asked on every request.
type watch interface {
	Mark() *store.Mark                                   // nil until known
	Counted(generation int64) (block int64)              // that the store had counted in a generation; 0: unknown
	Since(block int64) (generation int64, at time.Time)  // the earliest generation in which block is counted, and when it was first seen; 0: unknown
	Await(ctx context.Context, block int64) (late error) // returns once Mark tells of a block or a later one, or ctx ends
}

// A MetadataProvider describes collections; *metadata.Service is one.
type MetadataProvider interface {
	// Lookup returns, by lower-case address, documented collectionMetadata
	// objects. It keeps its own time; degraded says that some are missing, or
	// older than they should be, and that asking again soon makes sense.
	Lookup(ctx context.Context, addresses []string) (found map[string]json.RawMessage, degraded bool)
}

// answerCache is what the interface needs of the cache; *cache.Cache has it.
type answerCache interface {
	// Get answers a query from the stores, or by the origin.
	Get(ctx context.Context, q cache.Query, origin cache.Origin) (cache.Result, error)
	// Fresh answers a query from an entry in memory that is fresh now, if there
	// is one.
	Fresh(q cache.Query, now time.Time, of func(*cache.Entry) (use bool)) (res cache.Result, ok bool)
	// Derived returns what derive makes of a content, by its name, and keeps it
	// with the entry of the key.
	Derived(key string, of *cache.Content, name string, derive func(of *cache.Content, name string) *cache.Content) *cache.Content
}

// Options configure a Handler.
type Options struct {
	Store    finder           // nil: the listing is closed, and every request is refused
	Metadata MetadataProvider // nil: only what the store itself knows
	NoAuth   bool             // requests need no key

	Watch  watch // how far Store has come; nil: unknown, and nothing can be waited for
	Filled bool  // an indexer of this process fills Store

	MinHeightWait time.Duration // the longest wait for the block of X-Min-Evm-Block; default 10 s

	Policy      cache.Policy  // in seconds; zero: fresh for 5 s, stale for a minute, an hour while the store fails
	DegradedTTL time.Duration // life of a page that lacks metadata it should have; default 5 s
}

// WithDefaults fills in what was left zero.
func (o Options) WithDefaults() Options {
	o.Policy = cmp.Or(o.Policy, cache.Policy{Fresh: 5 * time.Second, Stale: time.Minute, StaleIfError: time.Hour, Keep: time.Hour})
	o.MinHeightWait = cmp.Or(o.MinHeightWait, limits.DefaultWait)
	o.DegradedTTL = cmp.Or(o.DegradedTTL, 5*time.Second)
	return o
}

// A Handler serves the collection listing. It owns no goroutine.
type Handler struct {
	o      Options
	stack  *web.Stack
	cache  answerCache
	schema *listSchema
	memo   *otter.Cache[string, listing] // what bodies ask for

	waiters *limits.Places
}

// New fills in the defaults.
func New(o Options, stack *web.Stack, c answerCache) *Handler {
	return &Handler{
		o: o.WithDefaults(), stack: stack, cache: c, schema: newListSchema(Prefix, documentSuffix), waiters: stack.Admission.NewWaiters(),
		memo: otter.Must(&otter.Options[string, listing]{
			MaximumWeight: memoBytes,
			Weigher:       func(body string, l listing) uint32 { return uint32(memoListing + len(body) + 42*len(l.Addresses)) },
		}),
	}
}

// Routes are the paths to be mounted: the listing and the schemas of its bodies.
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

// serve answers one request.
func (h *Handler) serve(c *gin.Context, rec *record.Record) error {
	r, deadline := c.Request, h.stack.Deadline(rec.Start)
	if h.o.Store == nil {
		return errClosed
	}
	asked, err := h.asked(c.Writer, r, &rec.Client, deadline)
	if err != nil {
		return err
	}
	ctx := web.WithLazyDeadline(r.Context(), deadline)
	defer ctx.Release()
	least, err := web.ReadMinEVM(r)
	if err != nil {
		return err
	}
	progress, err := h.awaited(ctx, rec, least)
	if err != nil {
		return err
	}
	query := h.query(asked, progress, least)
	if rec.Repeatable() {
		rec.Replayer = &repeatedListing{h, asked, least, h.schemaURL(r, PageSchema)}
	}
	res, err := h.cache.Get(ctx, query, h.origin(asked))
	if err != nil {
		return err
	}
	if err := h.covers(least, res, &query, progress); err != nil {
		return err
	}
	// The request is a query, if it is a POST only to have a body: If-None-Match gets
	// the 304 of a GET and saves the page, not the 412 of a change.
	var a respond.Response
	h.answer(&a, rec, res, &query, progress, h.schemaURL(r, PageSchema), time.Now())
	res.Entry = nil
	h.stack.Respond(c.Writer, r, &a)
	return nil
}

// plan says what a request would ask.
func (h *Handler) plan(r *http.Request) (web.Plan, error) {
	asked, err := h.asked(nil, r, h.stack.Admission.ClientOf(r), h.stack.Deadline(time.Now()))
	if err != nil {
		return web.Plan{}, err
	}
	least, err := web.ReadMinEVM(r)
	if err != nil {
		return web.Plan{}, err
	}
	return web.Plan{Route: "collections", Class: "collections", Asks: "the store for " + asked.String(), Origin: "the store", Query: h.query(asked, h.progress(), least)}, nil
}
