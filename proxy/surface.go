package proxy

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/cosmos"
	questions "github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/docs"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// A dialect is the interface to the chain as its nodes speak.
type dialect interface {
	Admit(c *gin.Context, rec *web.Record) error
	// Route is what answers a request; not ok is a path that is not the dialect's.
	Route(r *http.Request) (rt web.Route, ok bool)
	// Endpoint is that of a request's path; nil is none.
	Endpoint(r *http.Request) *questions.Endpoint
	// ReadHeights reads the blocks that a request names.
	ReadHeights(r *http.Request) (blocks.Heights, error)
	SetClasses(classes blocks.Classes, own map[string]cache.Policy) error
	SelectRoute(name string) (cache.Selection, error)
	SelectAddress(address string) (cache.Selection, error)
}

// A surface is all that depends on the dialect, and with it every route.
type surface struct {
	dialect
	*Server
	reader   *blocks.Reader       // nil while the dialect is unknown
	page     *blocks.Kind         // of several answers in one
	render   web.Renderer         // of the chain's failures
	exact    bool                 // the node tells the spellings of a path apart
	fixed    map[string]web.Route // the paths that are not the chain's
	patterns []string             // of all routes, to suggest
}

// newSurface makes the surface of a dialect: that of Story where o.Cosmos is nil.
func (s *Server) newSurface(o Options) (*surface, error) {
	v := &surface{Server: s, render: chain.RenderFailure, fixed: map[string]web.Route{}}
	reader, err := blocks.New(o.Chain.Reader(), s.stack, o.Cache)
	if err != nil {
		return nil, err
	}
	v.reader, v.page = reader, reader.Add(v.newPageKind(o))
	if o.Cosmos == nil {
		v.dialect, err = chain.New(o.Chain, reader)
		for _, row := range chain.Rows() {
			v.patterns = append(v.patterns, row.Pattern)
		}
	} else {
		v.exact, v.render = true, cosmos.RenderFailure
		v.dialect, err = cosmos.New(cosmos.Options{Classes: o.Chain.Classes, Routes: o.Chain.Routes, Rows: o.Cosmos.Rows, Posting: s.posting, MaxBody: o.Cosmos.MaxBody, Unindexed: &s.unindexed}, reader)
	}
	if err != nil {
		return nil, err
	}
	v.mount(docs.New(o.described(), s.stack, o.Cache).Routes())
	return v, nil
}

// mount adds paths that are not the chain's, after those of the collection listing.
func (v *surface) mount(routes []web.Route) {
	if v.list != nil {
		routes = slices.Concat(v.list.Routes(), routes)
	}
	for _, rt := range routes {
		v.fixed[rt.Pattern] = rt
		v.patterns = append(v.patterns, rt.Pattern)
	}
	v.fixed[stream.LivePath], v.fixed[blocks.BatchPath] = v.live(), v.batch()
}

// route is what answers a request: a path that is not the chain's, else the dialect.
func (v *surface) route(r *http.Request) web.Route {
	rt, ok := v.fixed[r.URL.Path]
	if !ok && !v.isListing(r) {
		rt, ok = v.Route(r)
	}
	switch {
	case !ok:
		return v.miss(r, v.noSuchPath(r))
	case rt.Methods != nil && !slices.Contains(rt.Methods, r.Method):
		return v.miss(r, &web.Failure{Status: http.StatusMethodNotAllowed, Public: "the method " + web.Short(r.Method) + " is not served here"}, rt.Methods...)
	}
	return rt
}

// noSuchPath names the path that may have been meant.
func (v *surface) noSuchPath(r *http.Request) *web.Failure {
	path := r.URL.Path
	return &web.Failure{Status: http.StatusNotFound, Public: "no such path: " + web.Short(path) + web.PathDidYouMean(path, v.patterns)}
}

func (v *surface) isListing(r *http.Request) bool {
	return v.list != nil && strings.HasPrefix(r.URL.Path, collections.Prefix)
}

// miss is the route of a request that no route takes: a preflight, whose method no route
// has, or one that is refused in the form of the interface that its path belongs to.
// allowed are the methods that its path has.
func (v *surface) miss(r *http.Request, why *web.Failure, allowed ...string) web.Route {
	render := v.render
	switch {
	case v.isListing(r):
		render = v.list.RenderProblem
	case v.o.Chain.Shape == chain.Node && !v.exact:
		render = noPage
	}
	serve := func(c *gin.Context, _ *web.Record) error {
		if allowed != nil {
			c.Header("Allow", strings.Join(allowed, ", "))
		}
		return why
	}
	return web.Route{
		Handler: v.stack.Handle(web.NoRoute, render, v.stack.OrPreflight(serve)), Render: render,
		Plan: func(*http.Request) (web.Plan, error) { return web.Plan{}, why },
	}
}

// noPage renders the node's own answer to a path that it does not have.
func noPage(r *http.Request, h http.Header, f *web.Failure) (status int, typ string, body []byte) {
	if f.Status != http.StatusNotFound {
		return chain.RenderFailure(r, h, f)
	}
	return f.Status, "text/plain; charset=utf-8", []byte("404 page not found\n")
}

// unknown stands for the dialect until a node says what it speaks: in the wrong one a path
// is another one.
type unknown struct{ *Server }

// errUnknown answers whatever may be the chain's.
var errUnknown = &web.Failure{
	Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Expected: true,
	Public: "no node of the chain has answered yet, so it is not known what its nodes speak",
}

// newUnknown is the surface without a dialect. There is nothing to describe.
func (s *Server) newUnknown() *surface {
	v := &surface{dialect: unknown{s}, Server: s, render: chain.RenderFailure, fixed: map[string]web.Route{}}
	v.mount(nil)
	return v
}

func (u unknown) Route(r *http.Request) (web.Route, bool) {
	return u.now().miss(r, errUnknown), true
}

func (unknown) Endpoint(*http.Request) *questions.Endpoint { return nil }
func (unknown) ReadHeights(*http.Request) (blocks.Heights, error) {
	return blocks.Heights{}, errUnknown
}
func (unknown) Admit(*gin.Context, *web.Record) error                    { return errUnknown }
func (unknown) SetClasses(blocks.Classes, map[string]cache.Policy) error { return nil } // SetDialect is told of those in force
func (unknown) SelectRoute(string) (cache.Selection, error)              { return cache.Selection{}, errUnknown }
func (unknown) SelectAddress(string) (cache.Selection, error)            { return cache.Selection{}, errUnknown }
