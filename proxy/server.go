// Package proxy is the public HTTP surface: it mounts the interfaces and answers
// what none of them does.
//
// A request comes to server.go, which brings its path into its one spelling and
// finds its route. Each room below serves a part:
//
//   - proxy/chain: the queries of the chain;
//   - proxy/collections: the listing of collections;
//   - proxy/stream: answers of the chain that come by themselves, as server-sent events;
//   - proxy/docs: the OpenAPI document and the manual of both;
//   - proxy/lane: requests that are repeated, before they come here;
//   - proxy/web: what every answer has, whichever interface it belongs to.
//
// undeclared.go stands for the chain as long as it is not known what its nodes speak.
// live.go streams several answers in one connection. readahead.go has the cache read
// what is asked for in every block as soon as one comes. misses.go answers what no
// route does. explain.go says what a request would come to, and explain_why.go why,
// in sentences. control.go is what operators change while it serves, and how they
// name the keys to be purged.
package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/docs"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// Options configure a Server. Cache is required.
type Options struct {
	Cache       *cache.Cache
	Web         web.Options
	Chain       chain.Options
	Cosmos      *Cosmos              // nil: the nodes speak the dialect of Story
	Undeclared  bool                 // it is not known yet what the nodes speak, and is said later, by SetDialect
	Collections *collections.Options // nil: the collection listing is not served
	Streams     stream.Options       // its Heights are the Chain's, its Budget the Cache's
	ReadAhead   ReadAhead
}

// Cosmos is what the dialect of the Cosmos SDK takes beside Options.Chain.
type Cosmos struct {
	Rows  []cosmos.Row
	Posts cosmos.Posts
}

// queries is the interface to the chain in one of the dialects.
type queries interface {
	Admit(c *gin.Context, rec *web.Record) error
	SetClasses(classes blocks.Classes, own map[string]cache.Policy) error
	SelectRoute(name string) (cache.Selection, error)
	SelectAddress(address string) (cache.Selection, error)
}

// Server answers the public interface. Its goroutines end with the streams that
// it serves and with Run, so it needs no closing.
type Server struct {
	o         Options
	stack     *web.Stack
	chain     queries
	cosmos    *cosmos.Handler      // nil in the other dialect
	list      *collections.Handler // nil: not served
	engine    *gin.Engine
	visits    *gin.Engine // the same routes, with visitors in place of their handlers
	patterns  []string    // of the routes
	streams   *stream.Handler
	successor atomic.Pointer[Server] // answers in its place once the dialect is known that was not at first
}

// New checks the options, fills in the defaults and mounts every route.
func New(o Options) (*Server, error) {
	if o.Cache == nil {
		return nil, errors.New("proxy: Cache is required")
	}
	if err := o.ReadAhead.validate(); err != nil {
		return nil, err
	}
	if o.Cosmos != nil || o.Undeclared {
		o.Web.HeightHeaders = cosmos.HeightHeaders
	}
	s := newServer(o, web.New(o.Web, o.Cache))
	o.Streams.Heights, o.Streams.Budget = o.Chain.Nodes, o.Cache
	s.streams = stream.New(o.Streams, s.stack)
	if o.Collections != nil {
		s.list = collections.New(*o.Collections, s.stack, o.Cache)
	}
	return s, s.mountAll()
}

// newServer makes a server without routes.
func newServer(o Options, stack *web.Stack) *Server {
	return &Server{o: o, stack: stack, engine: newEngine(), visits: newEngine()}
}

// mountAll mounts every route. Before it is known what the nodes speak there is nothing to describe.
func (s *Server) mountAll() error {
	if err := s.mountChain(); err != nil {
		return err
	}
	s.mountLive()
	if s.list != nil {
		s.mount(s.list.Routes())
	}
	if !s.o.Undeclared {
		s.mount(docs.New(s.o.described(), s.stack, s.o.Cache).Routes())
	}
	s.mountMisses()
	return nil
}

// mountChain mounts the interface to the chain. In the dialect of the SDK whatever no other route has is
// the chain's: the node routes otherwise than Gin.
func (s *Server) mountChain() (err error) {
	if s.o.Undeclared {
		s.chain = &undeclared{classes: s.o.Chain.Classes, own: s.o.Chain.Routes}
		return nil
	}
	reader, err := blocks.New(s.o.Chain.Reader(), s.stack, s.o.Cache)
	if err != nil {
		return err
	}
	if s.o.Cosmos == nil {
		h, err := chain.New(s.o.Chain, reader)
		if err == nil {
			s.chain = h
			s.mount(h.Routes())
		}
		return err
	}
	s.cosmos, err = cosmos.New(cosmos.Options{Chain: s.o.Chain, Rows: s.o.Cosmos.Rows, Posts: s.o.Cosmos.Posts}, reader)
	s.chain = s.cosmos
	return err
}

// described is what the documents tell of.
func (o Options) described() docs.Options {
	d := docs.Options{Chain: o.Chain, Collections: o.Collections}
	if o.Cosmos != nil {
		d.Cosmos = cosmos.Rows(o.Cosmos.Rows)
	}
	return d
}

// Document is the OpenAPI document of what a server with these options answers.
func Document(o Options) ([]byte, error) { return docs.Document(o.described()) }

// mount mounts an interface's routes.
func (s *Server) mount(routes []web.Route) {
	for _, rt := range routes {
		serve := rt.Handler
		if rt.Feed != nil {
			serve = s.orStream(rt)
		}
		s.engine.Match(rt.Methods, rt.Pattern, serve)
		s.visits.Handle(rt.Methods[0], rt.Pattern, visited(rt))
		s.patterns = append(s.patterns, rt.Pattern)
	}
}

// A visitor is called with the route that a request takes, and in place of its handler.
type visitor = func(c *gin.Context, rt web.Route)

type visitorKey struct{}

// visit calls v with the route that a request would take.
func (s *Server) visit(w http.ResponseWriter, r *http.Request, v visitor) {
	r = r.WithContext(context.WithValue(r.Context(), visitorKey{}, v))
	s.visits.ServeHTTP(w, s.tidied(r))
}

// visited makes a handler of Gin's that calls the visitor of a request with a route.
func visited(rt web.Route) gin.HandlerFunc {
	return func(c *gin.Context) {
		v, _ := c.Request.Context().Value(visitorKey{}).(visitor)
		v(c, rt)
	}
}

// Handler is the whole public surface.
func (s *Server) Handler() http.Handler { return s }

// ServeHTTP makes a trailing slash and doubled slashes the same resource: the
// node answers them with a 404 and an empty redirect.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s = s.now()
	s.stack.Arrived(w, r)
	web.Serve(s.engine, w, s.tidied(r))
}

// now is what answers at present.
func (s *Server) now() *Server {
	if next := s.successor.Load(); next != nil {
		return next
	}
	return s
}

// orStream answers requests for a stream of the route with one.
func (s *Server) orStream(rt web.Route) gin.HandlerFunc {
	streamed := s.streams.Handle(rt.Render, s.chain.Admit, func(c *gin.Context) ([]stream.Source, error) {
		feed, err := rt.Feed(c)
		return []stream.Source{{Feed: feed}}, err
	})
	return func(c *gin.Context) {
		if wantsStream(c.Request) {
			streamed(c)
		} else {
			rt.Handler(c)
		}
	}
}

// wantsStream tells whether a request asks for a stream, by its name, and would not
// rather have the answer once.
func wantsStream(r *http.Request) bool {
	accept := r.Header["Accept"]
	weight, named := web.Preference(accept, stream.EventType)
	if !named || weight == 0 {
		return false
	}
	once, _ := web.Preference(accept, web.JSON)
	return weight >= once
}

// tidied is the request without what only streams read, and with its path in its one spelling. In the
// dialect of the SDK the node tells spellings apart.
func (s *Server) tidied(r *http.Request) *http.Request {
	r = stream.TakeOptions(r)
	path := tidyPath(r.URL.Path)
	if path == r.URL.Path || s.cosmos != nil && !strings.HasPrefix(path, collections.Prefix) {
		return r
	}
	tidied, u := *r, *r.URL
	u.Path, u.RawPath = path, ""
	tidied.URL = &u
	return &tidied
}

// newEngine makes a Gin that only routes: no redirects and no middleware.
func newEngine() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.RedirectTrailingSlash = false
	engine.HandleMethodNotAllowed = true
	return engine
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
