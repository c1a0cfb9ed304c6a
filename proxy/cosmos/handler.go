package cosmos

import (
	"cmp"
	"errors"
	"hash/maphash"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"

	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/web"
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
	Rate    float64 // a second, of all clients together; default 50
	Burst   int     // at once; default 100
}

// WithDefaults fills in what was left zero.
func (p Posts) WithDefaults() Posts {
	return Posts{cmp.Or(p.MaxBody, 1<<20), cmp.Or(p.Rate, 50), cmp.Or(p.Burst, 100)}
}

// A Handler answers the queries of a chain. It owns no goroutine.
type Handler struct {
	*chain.Reader

	o           Options
	stack       *web.Stack
	cache       chain.Cache
	index       *index
	endpoints   []*endpoint // of the rows, in order
	posts       map[string]web.Route
	special     map[string]web.Route // what no row answers, by why
	posting     *rate.Limiter
	seed        maphash.Seed                   // digests of the node's answers, of this process alone
	policies    atomic.Pointer[chain.Policies] // replaced while serving, read without a lock
	nodeHeaders atomic.Pointer[nodeHeaders]    // of its newest answer; nil: none so far
}

// New checks the options and fills in the defaults.
func New(o Options, stack *web.Stack, c chain.Cache) (*Handler, error) {
	if o.Chain.Nodes == nil {
		return nil, errors.New("cosmos: Nodes is required")
	}
	o.Chain, o.Posts = o.Chain.WithDefaults(), o.Posts.WithDefaults()
	for _, r := range o.Rows {
		if err := r.Check(); err != nil {
			return nil, err
		}
	}
	x, err := newIndex(o.Rows, table)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		Reader: chain.NewReader(o.Chain, stack, c), o: o, stack: stack, cache: c, index: x,
		posting: rate.NewLimiter(rate.Limit(o.Posts.Rate), o.Posts.Burst), seed: maphash.MakeSeed(),
	}
	h.mount()
	return h, h.SetClasses(o.Chain.Classes, o.Chain.Routes)
}

// mount makes the handlers of the rows, of posts and of the rest.
func (h *Handler) mount() {
	for _, m := range h.index.rows {
		ep := &endpoint{Handler: h, row: m}
		serve := ep.serve
		ep.route = web.Route{Render: WriteFailure, Plan: ep.plan, Feed: ep.feed}
		if m.Class == Never {
			serve, ep.route.Feed = ep.pass, nil
		}
		ep.route.Handler = h.handle(m.Name, serve)
		h.endpoints = append(h.endpoints, ep)
	}
	h.posts, h.special = map[string]web.Route{}, map[string]web.Route{}
	for path, name := range posts {
		h.posts[path] = h.passed(name, (&post{Handler: h, path: path}).serve)
	}
	h.special[redirected] = h.passed(redirected, redirect)
	h.special[unserved] = h.passed(web.NoRoute, h.stack.OrPreflight(func(*gin.Context, *web.Record) error { return errNotImplemented }))
}

// The names of what no row answers.
const (
	redirected = "redirect"
	unserved   = "unserved"
)

func (h *Handler) passed(name string, serve web.Handler) web.Route {
	return web.Route{
		Handler: h.handle(name, serve), Render: WriteFailure,
		Plan: func(*gin.Context) (web.Plan, error) { return web.Plan{}, nil },
	}
}

// handle ends what a handler leaves open: Gin would add a text of its own.
func (h *Handler) handle(name string, serve web.Handler) gin.HandlerFunc {
	handler := h.stack.Handle(name, WriteFailure, serve)
	return func(c *gin.Context) {
		handler(c)
		c.Writer.WriteHeaderNow()
	}
}

// Route is what answers a request. The node routes by the decoded path.
func (h *Handler) Route(r *http.Request) web.Route {
	switch {
	case clean(r.URL.Path) != r.URL.Path:
		return h.special[redirected]
	case slices.Contains(methods, r.Method):
		var room [maxParts]string
		path := dropColon(r.URL.Path)
		return h.endpoints[h.index.find(path, appendParts(room[:0], path)).place].route
	case r.Method == http.MethodPost:
		if route, ok := h.posts[dropColon(r.URL.Path)]; ok {
			return route
		}
	}
	return h.special[unserved]
}

// redirect sends a client to the clean path, as the node does.
func redirect(c *gin.Context, _ *web.Record) error {
	target := *c.Request.URL
	target.Scheme, target.Host, target.Path, target.RawPath = "", "", clean(target.Path), ""
	c.Writer.Header().Set("Location", target.String())
	c.Writer.WriteHeader(http.StatusMovedPermanently)
	return nil
}

// RowClass names the freshness class of a row, among those of the operator and of the table, for
// the defaults of its policy; ok is false where no row has the name.
func RowClass(own []Row, name string) (class Class, ok bool) {
	for _, rows := range [][]Row{own, table} {
		for _, r := range rows {
			if r.Name == name {
				return r.Class, true
			}
		}
	}
	return "", false
}

// Table is all the built-in rows.
func Table() []Row { return slices.Clone(table) }
