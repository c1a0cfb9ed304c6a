// Package proxy is the public HTTP API. It mounts the interfaces, and answers requests for unknown paths.
//
// server.go brings the path of a request into its canonical form. Its Gin engine passes the request
// through the middleware of package web to the handler of its route, or to the handler of streams, polls
// or gRPC-Web. Each package below serves a part:
//
//   - proxy/story, proxy/cosmos: the queries of the chain, by the rows of proxy/dialect;
//   - proxy/collections: the listing of collections;
//   - proxy/stream: responses that follow the chain, as server-sent events and long polls;
//   - proxy/rpc, proxy/grpc: the RPC and the gRPC of the nodes, on listeners of their own, with
//     gRPC-Web on the public one;
//   - proxy/docs: the OpenAPI document and the manual;
//   - proxy/lane: repeated requests, before they arrive here;
//   - proxy/web: the middleware that every request passes; proxy/conn, proxy/session and proxy/respond have connections,
//     what clients have seen, and the headers and bodies of responses.
//
// A GET that misses the cache is, in this order, one value of each of these types:
//
//   - http.Request, on a [conn.Conn], with its [record.Record], which becomes the log line and the metrics;
//   - [web.Route], chosen by its path: a row of the table is a [dialect.Endpoint];
//   - [blocks.Read], which has the cache key, the kind of read, the heights and the request to a node;
//   - [cache.Query], with the key, the policy and the tip;
//   - [node.Request], which the flight sends to a node, and [node.Answer], which the node returns;
//   - [cache.Entry], which the cache stores, in a [cache.Result], which names the store;
//   - [blocks.Result], which adds the tip that it was served by;
//   - [respond.Response], whose headers and body are sent.
//
// A request that fails becomes a [failure.Failure], which the route renders.
//
// mount.go creates the interfaces and the routes of each base path, for the dialect of the nodes. Package fallback
// passes requests to another service. live.go streams one or more paths. batch.go returns several paths in one
// response, at one block. readahead.go starts the reads ahead at each block. explain.go describes the response that a
// request would get, and explain_why.go gives the reason. control.go changes settings while the server runs, and selects
// keys to purge.
package proxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/fallback"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// Server serves the public HTTP API. Its goroutines end with the streams that it serves and with Run, so it needs no
// closing.
type Server struct {
	o       Options
	stack   *web.Stack
	list    *collections.Handler // nil if not served
	streams *stream.Handler
	posting *blocks.Posting
	methods map[string]dialect.Row // of gRPC, by their names

	readers []*blocks.Reader // of rpc and grpc
	rpc     *rpc.Handler     // nil if not served
	grpc    *grpc.Handler    // nil if not served
	mounts  []*router        // longest base path first
	root    *router          // serves what is below no mount: the collection listing and errors

	fallbacks []*fallback.Service // by mount; nil for none
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.passesHealth(r.URL.Path) && s.stack.ServeHealth(w, r) {
		return
	}
	v, r := s.mounted(r)
	s.stack.Serve(v.engine, w, v.tidied(r))
}

// passesHealth reports whether a fallback at the root always answers the path of a health check.
func (s *Server) passesHealth(path string) bool {
	if !web.IsHealthPath(path) {
		return false
	}
	v := s.mounts[len(s.mounts)-1]
	return v.base == "" && v.fallback != nil && v.always.Match(path)
}

// mounted returns the router with the longest base path that a request's path begins with, and the request relative to
// that base. The collection listing is always at the root, too.
func (s *Server) mounted(r *http.Request) (*router, *http.Request) {
	for _, v := range s.mounts {
		if v.base == "" {
			return v, r
		}
		if below, ok := respond.Below(r, v.base); ok && !s.root.isListing(r.URL.Path) {
			return v, below
		}
	}
	return s.root, r
}

// newEngine returns the router of the public listener. Our own paths are Gin routes. Gin's NoRoute
// handler serves the paths of the chain, which the dialect's table routes, for two reasons:
//
//   - /batch, /live, polls, explain and purge look routes up without serving a request;
//   - rows such as the SDK's {path=**}, and the rows of operators, which take precedence, do not fit Gin's tree.
//
// A request with another method for one of our own paths goes to NoRoute too, and v.route refuses it. All handlers are
// web.Handle, which serves the route that find has found.
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

// find returns the route of a request: the route of its path, or for a stream or poll the route that wraps it.
func (v *router) find(c *gin.Context) web.Route {
	rt := v.route(c.Request)
	rt.Access = v.operationOf(c.Request.URL.Path)
	waits := false
	if rt.Waits {
		c.Request, waits = stream.WithoutWait(c.Request)
	}
	switch {
	case c.FullPath() == stream.LivePath:
		c.Request = stream.OptionsAsHeaders(c.Request)
	case rt.Feed != nil && wantsStream(c.Request.Header["Accept"]):
		c.Request = stream.OptionsAsHeaders(c.Request)
		return v.stream(rt)
	case waits:
		return v.streams.Wait(rt)
	case rt.Feed != nil && web.RemovedParameters(c.Request)[stream.SinceParameter] != nil:
		return v.streams.Poll(rt, blocks.RestorePinned)
	}
	return rt
}

// serveGRPCWeb serves gRPC-Web calls, whose records and failures have another form.
func (v *router) serveGRPCWeb(c *gin.Context) {
	if c.Request.Method == http.MethodPost && v.grpc != nil && strings.HasPrefix(c.Request.Header.Get("Content-Type"), grpc.WebType) {
		v.grpc.ServeWeb(c.Writer, c.Request)
		c.Abort()
	}
}

// tidied removes the parameters of streams, polls and blocks, such as ?stream.* and ?since, from the query. They stay in the
// context. It also removes trailing and doubled slashes from the path below the base. A node of Story would answer such a path
// with a 404 or an empty redirect. For a node of the SDK it is another path, which stays unchanged.
func (v *router) tidied(r *http.Request) *http.Request {
	if 0 < len(r.URL.RawQuery) && len(r.URL.RawQuery) <= web.MaxURL { // a longer one is refused
		r = web.WithoutParameters(r, stream.FilterOption, blocks.FilterHeight)
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

// operationOf returns the operation that access rules judge for a path below the base. Paths that reach the same route have
// the same operation.
func (v *router) operationOf(path string) string {
	path = tidyPath(path)
	if v.exact {
		path = dialect.DropColon(path)
	}
	return path
}

// tidyPath removes doubled slashes and a trailing one.
func tidyPath(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	return path
}

// wantsStream reports whether a client names the type of streams and does not prefer a single response.
func wantsStream(accept []string) bool {
	if accept == nil {
		return false
	}
	weight, named := respond.Preference(accept, stream.EventType)
	if !named || weight == 0 {
		return false
	}
	once, _ := respond.Preference(accept, respond.JSON)
	return weight >= once
}

// route returns the route of a request, which refuses it if no other route serves it.
func (v *router) route(r *http.Request) web.Route {
	rt, ok := v.routeOf(r)
	switch {
	case !ok:
		return v.miss(r, v.noSuchPath(r))
	case rt.Methods != nil && !slices.Contains(rt.Methods, r.Method):
		return v.miss(r, &failure.Failure{Status: http.StatusMethodNotAllowed, Public: "the method " + web.Short(r.Method) + " is not served here" + hintOfMethod(r)}, rt.Methods...)
	}
	return rt
}

// hintOfMethod says where JSON-RPC is served to a client that posts to the root.
func hintOfMethod(r *http.Request) string {
	if r.Method != http.MethodPost || r.URL.Path != "/" {
		return ""
	}
	return ": this address has the REST API, CometBFT's JSON-RPC has an address of its own, and that of execution clients is not served"
}

// routeOf returns the route of a request's path. Patterns that always go to the fallback come first, then fixed paths,
// then paths of the chain, then the fallback.
func (v *router) routeOf(r *http.Request) (rt web.Route, ok bool) {
	if v.fallback != nil && v.always.Match(r.URL.Path) {
		return v.passed, true
	}
	if rt, ok = v.fixed[r.URL.Path]; ok || v.isListing(r.URL.Path) {
		return rt, ok
	}
	rt, ok = v.Route(r)
	if v.fallback != nil && (!ok || rt.Name == dialect.Other) {
		return v.passed, true
	}
	return rt, ok
}

func (v *router) isListing(path string) bool {
	return v.list != nil && strings.HasPrefix(tidyPath(path), collections.Prefix)
}

// noSuchPath is the failure for an unknown path. It suggests the path that was probably meant.
func (v *router) noSuchPath(r *http.Request) *failure.Failure {
	path := r.URL.Path
	return &failure.Failure{Status: http.StatusNotFound, Public: "no such path: " + web.Short(path) + web.PathDidYouMean(path, v.patterns)}
}

// notNamed is the failure for a path without a row that a batch or stream names.
func (v *router) notNamed(r *http.Request) error {
	if v.route(r).Name != dialect.Other {
		return v.noSuchPath(r)
	}
	path := r.URL.Path
	return failure.BadInput("this server does not know %s, and passes it to a node only if it is requested alone%s", web.Short(path), web.PathDidYouMean(path, v.patterns))
}

// miss returns the route that refuses a request in the form of the interface that its path belongs to. Preflights take
// this route, too. allowed are the methods of its path.
func (v *router) miss(r *http.Request, why *failure.Failure, allowed ...string) web.Route {
	render := v.render
	switch {
	case v.isListing(r.URL.Path):
		render = v.list.RenderProblem
	case !v.exact:
		render = story.MissRenderer(v.shape)
	}
	serve := func(c *gin.Context, _ *record.Record) error {
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
