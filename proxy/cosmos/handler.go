package cosmos

import (
	"cmp"
	"hash/maphash"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node/queue"
)

// Options configure a Handler. Chain.Nodes is required; of Chain's options Shape and MaxPageLimit
// mean nothing here, and Routes goes by the names of rows.
type Options struct {
	Chain chain.Options
	Rows  []Row // of the operator's own; they come before the table's
	Posts Posts
}

// Posts are the limits of what is passed through to the node: of transactions that are broadcast,
// simulated, encoded and decoded.
type Posts struct {
	MaxBody int64   // bytes; default 1 MiB
	Rate    float64 // a second, of all clients together, who take turns; default 50
	Burst   int     // at once; default 100
}

// postPatience is how long a post waits for its turn.
const postPatience = 2 * time.Second

// WithDefaults fills in what was left zero.
func (p Posts) WithDefaults() Posts {
	return Posts{cmp.Or(p.MaxBody, 1<<20), cmp.Or(p.Rate, 50), cmp.Or(p.Burst, 100)}
}

// A Handler answers the queries of a chain. It owns no goroutine.
type Handler struct {
	*blocks.Reader

	limits      Posts
	rows        []chain.Row
	table       *rowTable
	posts       map[string]web.Route
	redirect    web.Route // of a path that is not clean
	unserved    web.Route // of a method and path that nothing answers
	posting     *queue.Tokens
	bodies      *limits.Places
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
	rows := Rows(o.Rows)
	t, err := newTable(rows)
	if err != nil {
		return nil, err
	}
	p := o.Posts.WithDefaults()
	h := &Handler{
		Reader: r, limits: p, rows: rows, table: t, seed: maphash.MakeSeed(),
		posting: queue.NewTokens(p.Rate, p.Burst, postPatience), bodies: r.Stack.NewBodies(p.MaxBody),
	}
	h.noteCodec("")
	h.mount()
	return h, r.SetClasses(o.Chain.Classes, o.Chain.Routes)
}

// mount makes the handlers of the rows, of posts and of the rest.
func (h *Handler) mount() {
	for _, m := range h.table.rows {
		ep := &endpoint{h: h, row: m}
		kind := h.Add(&blocks.Kind{Name: m.Name, Class: m.Class, Tell: ep.tell, Essence: chain.WithoutNextKey})
		ep.Endpoint = &chain.Endpoint{Reader: h.Reader, Row: m.Row, Kind: kind, Parse: ep.parse}
		m.route = ep.Route(ep.serve, RenderFailure)
		if m.Class == Never {
			m.route.Feed = nil
		}
	}
	h.posts = map[string]web.Route{}
	for path, name := range posts {
		h.posts[path] = h.passed(name, (&post{Handler: h, path: path}).serve)
	}
	h.redirect = h.passed("redirect", redirect)
	h.unserved = h.passed(web.NoRoute, h.Stack.OrPreflight(func(*gin.Context, *web.Record) error { return errNotImplemented }))
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
		var room [chain.MaxParts]string
		m, _, _ := h.table.find(room[:0], r.URL.Path)
		return m.route, true
	case r.Method == http.MethodPost:
		if route, ok := h.posts[dropColon(r.URL.Path)]; ok {
			return route, true
		}
	}
	return h.unserved, true
}

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
func Rows(own []Row) []chain.Row {
	var all []chain.Row
	for _, r := range slices.Concat(own, table) {
		all = append(all, chain.Row(r))
	}
	return all
}
