// Package proxy is the public HTTP surface: it mounts the interfaces and answers
// what none of them does.
//
// server.go brings the path of a request into its canonical form. Its Gin engine passes the request
// through the middleware of package web to the handler of its route, or to the handler of streams, polls
// or gRPC-Web. Each package below serves a part:
//
//   - proxy/chain: the queries of the chain;
//   - proxy/collections: the listing of collections;
//   - proxy/stream: answers of the chain that come by themselves, as server-sent events;
//   - proxy/rpc, proxy/grpc: the RPC and the gRPC of the nodes, on listeners of their own, with
//     gRPC-Web on the public one;
//   - proxy/docs: the OpenAPI document and the manual of both;
//   - proxy/lane: requests that are repeated, before they come here;
//   - proxy/web: what every answer has, whichever interface it belongs to.
//
// mount.go makes the interfaces and every route, in the dialect that the nodes speak, or for as long as
// that is not known. live.go streams one answer or several. batch.go answers several paths in one answer, at
// one block. readahead.go has the cache read what is asked for in every block as soon as
// one comes. explain.go says what a request would come to, and explain_why.go why,
// in sentences. control.go is what operators change while it serves, and how they
// name the keys to be purged.
package proxy

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// Server answers the public interface. Its goroutines end with the streams that
// it serves and with Run, so it needs no closing.
type Server struct {
	o       Options
	stack   *web.Stack
	list    *collections.Handler // nil: not served
	streams *stream.Handler
	posting *blocks.Posting

	readers []*blocks.Reader       // of rpc and grpc
	rpc     *rpc.Handler           // nil: not served
	grpc    *grpc.Handler          // nil: not served
	router  atomic.Pointer[router] // replaced once, where the dialect was not known at first
}

// now is what answers at present.
func (s *Server) now() *router { return s.router.Load() }

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := s.now()
	s.stack.Serve(v.engine, w, v.tidied(r))
}

// newEngine returns the router of the public listener. Paths of ours are Gin's routes. Gin's NoRoute
// handler serves the paths of the chain, which the dialect's table routes, for two reasons:
//
//   - /batch, /live, polls, explain and purge look routes up without serving a request;
//   - rows such as the SDK's {path=**}, and the rows of operators, which win over ours, do not fit Gin's tree.
//
// A method that a path of ours does not have comes to NoRoute too, and v.route refuses it.
func (v *router) newEngine() *gin.Engine {
	engine := v.stack.NewEngine(v.find, v.serveGRPCWeb)
	for path, rt := range v.fixed {
		for _, method := range rt.Methods {
			engine.Handle(method, path, web.Handle)
		}
	}
	engine.NoRoute(web.Handle)
	return engine
}

// find returns the route of a request: that of its path, or for a stream or a poll the route made of it.
func (v *router) find(c *gin.Context) web.Route {
	rt := v.route(c.Request)
	switch {
	case c.FullPath() == stream.LivePath:
		c.Request = stream.OptionsAsHeaders(c.Request)
	case rt.Feed != nil && wantsStream(c.Request.Header["Accept"]):
		c.Request = stream.OptionsAsHeaders(c.Request)
		return v.stream(rt)
	case rt.Feed != nil && web.Taken(c.Request)[stream.SinceParameter] != nil:
		return v.streams.Poll(rt, blocks.RestorePinned)
	}
	return rt
}

// serveGRPCWeb serves calls by gRPC-Web, which have records and failures of their own form.
func (v *router) serveGRPCWeb(c *gin.Context) {
	if c.Request.Method == http.MethodPost && v.grpc != nil && strings.HasPrefix(c.Request.Header.Get("Content-Type"), grpc.WebType) {
		v.grpc.ServeWeb(c.Writer, c.Request)
		c.Abort()
	}
}

// tidied is the request without what only streams read and without the heights that its URL names, which both
// are found nonetheless, and with its path in its one spelling: a trailing slash and doubled slashes are the
// same resource. The node of Story answers them with a 404 and an empty redirect; one of the SDK tells
// spellings apart.
func (v *router) tidied(r *http.Request) *http.Request {
	if r.URL.RawQuery != "" {
		r = web.Without(r, stream.TakeOption, blocks.TakeHeight)
	}
	path := tidyPath(r.URL.Path)
	if path == r.URL.Path || v.exact && !strings.HasPrefix(path, collections.Prefix) {
		return r
	}
	tidied, u := *r, *r.URL
	u.Path, u.RawPath = path, ""
	tidied.URL = &u
	return &tidied
}

// tidyPath takes out doubled slashes and a trailing one.
func tidyPath(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	return path
}

// wantsStream tells whether a client asks for a stream, by its name, and would not
// rather have the answer once.
func wantsStream(accept []string) bool {
	if accept == nil {
		return false
	}
	weight, named := web.Preference(accept, stream.EventType)
	if !named || weight == 0 {
		return false
	}
	once, _ := web.Preference(accept, web.JSON)
	return weight >= once
}

// route is what answers a request: a path that is not the chain's, else the dialect.
func (v *router) route(r *http.Request) web.Route {
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

func (v *router) isListing(r *http.Request) bool {
	return v.list != nil && strings.HasPrefix(r.URL.Path, collections.Prefix)
}

// noSuchPath names the path that may have been meant.
func (v *router) noSuchPath(r *http.Request) *web.Failure {
	path := r.URL.Path
	return &web.Failure{Status: http.StatusNotFound, Public: "no such path: " + web.Short(path) + web.PathDidYouMean(path, v.patterns)}
}

// miss is the route of a request that no route takes: a preflight, whose method no route
// has, or one that is refused in the form of the interface that its path belongs to.
// allowed are the methods that its path has.
func (v *router) miss(r *http.Request, why *web.Failure, allowed ...string) web.Route {
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
		Name: web.NoRoute, Serve: serve, Render: render,
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
