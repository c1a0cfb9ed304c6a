// Package proxy is the public HTTP API. It mounts the interfaces, and answers requests for unknown paths.
//
// The door, package web, makes a [web.Request] of each request. It chooses the base path, takes our own parameters out of the query, and
// for Story removes surplus slashes from the path. The engine of the base path passes the request through the middleware to the
// function of its route. server.go finds the route. It is the route of the path, or one for a stream, a poll or gRPC-Web.
//
// A GET that misses the cache is, in this order, one value of each of these types:
//
//   - [web.Request]: the http.Request, on a [conn.Conn], with what was understood of it, its response, and its [record.Record], which
//     becomes the log line and the metrics;
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
// On its way a reader meets these indirections:
//
//   - Gin calls the middleware, whose last function calls the [web.Handler] of the route: (*dialect.Endpoint).serve;
//   - the cache calls its [cache.Loader]: the loader of package blocks (blocks/load.go);
//   - the loader calls its [blocks.Source]: for Story the origin (story/origin.go), for paths without a row story/unknown.go, for the SDK
//     cosmos/origin.go, for RPC rpc/origin.go, for values of the state state/origin.go;
//   - the source calls [blocks.Nodes]: the node.Pool, or story/bothshapes.go in front of it if the mounts have both shapes;
//   - the cache calls its store: package cache/redis, or nothing;
//   - the fast lane calls the record.Replayer of a request: blocks/replay.go, rpc/replay.go or grpc/replay.go.
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

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/fallback"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// Server serves the public HTTP API. Its goroutines end with the streams that it serves and with Run, so it needs no
// closing.
type Server struct {
	http.Handler // the door

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

// passesHealth reports whether a fallback at the root always answers a path of the health checks.
func (s *Server) passesHealth(path string) bool {
	v := s.mounts[len(s.mounts)-1]
	return v.base == "" && v.passes(path)
}

// routers returns the routers in the order in which they are asked to serve a path. The last one, the root, serves all.
func (s *Server) routers() []*router { return append(slices.Clip(s.mounts), s.root) }

// newEngine returns the engine of the public listener. Our own paths and the documented paths of the chain are Gin routes. The
// dialect's table routes all others:
//
//   - paths of the SDK and of operators' rows, which do not fit Gin's tree;
//   - paths in the parameters of /batch, /live, explain and purge, which Gin does not see;
//   - requests with a method that a path does not have. v.route refuses them.
func (v *router) newEngine() *web.Engine {
	mount := &web.Mount{Base: v.base, Exact: v.exact}
	if v.list != nil {
		mount.Own = collections.Prefix
	}
	e := v.stack.NewEngine(mount, func(r *web.Request) web.Route { return v.inMode(r, v.route(r)) })
	for path, rt := range v.fixed {
		e.Handle(path, v.found(rt), rt.Methods...)
	}
	for _, rt := range v.Routes() {
		if _, isFixed := v.fixed[rt.Pattern]; !isFixed {
			e.Handle(rt.Pattern, v.found(rt), rt.Methods...)
		}
	}
	return e
}

// found returns a function that returns the route of a request for whose path Gin has found rt.
func (v *router) found(rt web.Route) func(*web.Request) web.Route {
	return func(r *web.Request) web.Route {
		if v.passes(r.URL.Path) {
			return v.inMode(r, v.route(r))
		}
		return v.inMode(r, rt)
	}
}

// inMode returns the route that serves a request for rt: once, as a stream, as a poll, or when its item is found. A POST
// with the media type of gRPC-Web is a gRPC-Web call on every path.
func (v *router) inMode(r *web.Request, rt web.Route) web.Route {
	if r.Method == http.MethodPost && v.grpc != nil && grpc.IsWeb(r.Header.Get("Content-Type")) {
		return web.Route{Whole: v.grpc.ServeWeb}
	}
	rt.Access = v.operationOf(r.URL.Path)
	waits := rt.Waits && stream.TakeWait(r)
	switch {
	case rt.Pattern == stream.LivePath:
		stream.OptionsAsHeaders(r)
	case rt.Feed != nil && wantsStream(r.Header["Accept"]):
		stream.OptionsAsHeaders(r)
		return v.stream(rt)
	case waits:
		return v.streams.Wait(rt)
	case rt.Feed != nil && r.Options[web.SinceParameter] != nil:
		return v.streams.Poll(rt)
	}
	return rt
}

// operationOf returns the operation that access rules judge for a tidied path below the base. Paths that reach the same route have the
// same operation.
func (v *router) operationOf(path string) string {
	if v.exact {
		path = dialect.DropColon(web.TidyPath(path))
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
func (v *router) route(r *web.Request) web.Route {
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
func hintOfMethod(r *web.Request) string {
	if r.Method != http.MethodPost || r.URL.Path != "/" {
		return ""
	}
	return ": this address has the REST API, CometBFT's JSON-RPC has an address of its own, and that of execution clients is not served"
}

// routeOf returns the route of a request's path. Patterns that always go to the fallback come first, then fixed paths,
// then paths of the chain, then the fallback.
func (v *router) routeOf(r *web.Request) (rt web.Route, ok bool) {
	if v.passes(r.URL.Path) {
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

// passes reports whether the fallback always answers a path.
func (v *router) passes(path string) bool { return v.fallback != nil && v.always.Match(path) }

func (v *router) isListing(path string) bool {
	return v.list != nil && strings.HasPrefix(web.TidyPath(path), collections.Prefix)
}

// noSuchPath is the failure for an unknown path. It suggests the path that was probably meant.
func (v *router) noSuchPath(r *web.Request) *failure.Failure {
	path := r.URL.Path
	return &failure.Failure{Status: http.StatusNotFound, Public: "no such path: " + web.Short(path) + web.PathDidYouMean(path, v.patterns)}
}

// notNamed is the failure for a path without a row that a batch or stream names.
func (v *router) notNamed(r *web.Request) error {
	if v.route(r).Name != dialect.Other {
		return v.noSuchPath(r)
	}
	path := r.URL.Path
	return failure.BadInput("this server does not know %s, and passes it to a node only if it is requested alone%s", web.Short(path), web.PathDidYouMean(path, v.patterns))
}

// miss returns the route that refuses a request in the form of the interface that its path belongs to. Preflights take
// this route, too. allowed are the methods of its path.
func (v *router) miss(r *web.Request, why *failure.Failure, allowed ...string) web.Route {
	render := v.render
	switch {
	case v.isListing(r.URL.Path):
		render = v.list.RenderProblem
	case !v.exact:
		render = story.MissRenderer(v.shape)
	}
	serve := func(r *web.Request) error {
		if allowed != nil {
			r.ResponseHeader.Set("Allow", strings.Join(allowed, ", "))
		}
		return why
	}
	return web.Route{
		Name: web.NoRoute, Serve: serve, Render: render,
		Plan: func(*web.Request) (web.Plan, error) { return web.Plan{}, why },
	}
}
