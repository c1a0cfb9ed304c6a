package cosmos

import (
	"cmp"
	"hash/maphash"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/unindexed"
	"github.com/tipcache/tipcache/proxy/web"
)

// Options configure a Handler.
type Options struct {
	Classes blocks.Classes          // Handler.SetClasses replaces them
	Routes  map[string]cache.Policy // single rows, by name, in place of their class's policy
	Rows    []Row                   // of the operator's own; they come before the table's
	Posting *blocks.Posting         // of what clients post; nil: one of the handler's own
	MaxBody int64                   // of that, in bytes; default 1 MiB

	Unindexed *unindexed.Txs // transactions that nodes do not find; nil: none is known
}

// DefaultMaxBody is the size of the largest body that is passed on to a node, in bytes.
const DefaultMaxBody = web.LargestBody

// A Handler answers the queries of a chain. It owns no goroutine.
type Handler struct {
	*blocks.Reader

	maxBody     int64
	rows        []dialect.Row
	index       *dialect.Index
	routes      []web.Route         // of the rows, in order
	endpoints   []*dialect.Endpoint // the same
	posts       map[string]web.Route
	redirect    web.Route // of a path that is not clean
	unserved    web.Route // of a method and path that nothing answers
	posting     *blocks.Posting
	unindexed   *unindexed.Txs
	seed        maphash.Seed                // digests of the node's answers, of this process alone
	nodeHeaders atomic.Pointer[nodeHeaders] // of its newest answer
}

// New checks the options and fills in the defaults.
func New(o Options, r *blocks.Reader) (*Handler, error) {
	for _, own := range o.Rows {
		if err := own.Check(); err != nil {
			return nil, err
		}
	}
	h := &Handler{
		Reader: r, rows: Rows(o.Rows), seed: maphash.MakeSeed(),
		posting: cmp.Or(o.Posting, blocks.NewPosting(blocks.Posts{})), maxBody: cmp.Or(o.MaxBody, DefaultMaxBody),
		unindexed: o.Unindexed,
	}
	h.noteCodec("")
	if err := h.mount(); err != nil {
		return nil, err
	}
	return h, r.SetClasses(o.Classes, o.Routes)
}

// moduleDepth is how many segments name a module: cosmos, bank, v1beta1.
const moduleDepth = 3

// mount makes the handlers of the rows, of posts and of the rest.
func (h *Handler) mount() error {
	var readers []*dialect.Reader
	for _, row := range h.rows {
		rd, err := newReader(row)
		if err != nil {
			return err
		}
		readers, h.routes = append(readers, rd), append(h.routes, h.mountRow(rd))
	}
	h.index = dialect.NewIndex(moduleDepth, readers)
	h.posts = map[string]web.Route{}
	for path, name := range posts {
		h.posts[path] = h.passed(name, (&post{Handler: h, path: path}).serve)
	}
	h.redirect = h.passed("redirect", redirect)
	h.unserved = h.passed(web.NoRoute, h.Stack.OrPreflight(func(*gin.Context, *web.Record) error { return errNotImplemented }))
	return nil
}

// mountRow makes the handler of a row.
func (h *Handler) mountRow(rd *dialect.Reader) web.Route {
	ep := &endpoint{h: h, row: rd}
	kind := h.Add(&blocks.Kind{Name: rd.Name, Class: rd.Class, Tell: ep.tell, Essence: dialect.WithoutNextKey})
	ep.Endpoint = &dialect.Endpoint{Reader: h.Reader, Row: rd.Row, Kind: kind, Parse: ep.parse}
	h.endpoints = append(h.endpoints, ep.Endpoint)
	route := ep.Route(ep.serve, RenderFailure)
	if rd.Class == Never {
		route.Feed = nil
	}
	return route
}

func newReader(row dialect.Row) (*dialect.Reader, error) {
	return dialect.NewReader(row, dialect.Gateway, fieldOf)
}

func (h *Handler) passed(name string, serve web.Handler) web.Route {
	return web.Route{
		Handler: h.Stack.Handle(name, RenderFailure, serve), Render: RenderFailure,
		Plan: func(*http.Request) (web.Plan, error) { return web.Plan{}, nil },
	}
}

// Route is what answers a request, whatever it is. The node routes by the decoded path.
func (h *Handler) Route(r *http.Request) (web.Route, bool) {
	switch {
	case clean(r.URL.Path) != r.URL.Path:
		return h.redirect, true
	case slices.Contains(methods, r.Method):
		place, _ := h.index.Find(dropColon(r.URL.Path)) // the last row fits whatever comes
		return h.routes[place], true
	case r.Method == http.MethodPost:
		if route, ok := h.posts[dropColon(r.URL.Path)]; ok {
			return route, true
		}
	}
	return h.unserved, true
}

// Endpoint is that of a request's path, nil for a path that is not clean.
func (h *Handler) Endpoint(r *http.Request) *dialect.Endpoint {
	if clean(r.URL.Path) != r.URL.Path {
		return nil
	}
	place, _ := h.index.Find(dropColon(r.URL.Path))
	return h.endpoints[place]
}

// ReadHeights reads the blocks that a request names.
func (h *Handler) ReadHeights(r *http.Request) (blocks.Heights, error) { return heights.Read(r) }

// redirect sends a client to the clean path, as the node does.
func redirect(c *gin.Context, _ *web.Record) error {
	target := *c.Request.URL
	target.Scheme, target.Host, target.Path, target.RawPath = "", "", clean(target.Path), ""
	target.RawQuery = blocks.RestoreHeights(c.Request)
	c.Writer.Header().Set("Location", target.String())
	c.Writer.WriteHeader(http.StatusMovedPermanently)
	return nil
}

// Rows are all the rows of a chain: those of the operator, and then the table's.
func Rows(own []Row) []dialect.Row {
	var all []dialect.Row
	for _, r := range slices.Concat(own, table) {
		r.Method = r.method()
		all = append(all, dialect.Row(r))
	}
	return all
}
