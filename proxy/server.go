// Package proxy is the public HTTP surface: it mounts the interfaces and answers
// what none of them does.
//
// A request comes to server.go, which brings its path into its one spelling and
// finds its route. Each room below serves a part:
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
// surface.go has every route, in the dialect that the nodes speak, and answers what no
// route does, also as long as the dialect is not known. live.go streams one answer or
// several. batch.go answers several paths in one answer, at one block. readahead.go has the cache read what is asked for in every block as soon as
// one comes. explain.go says what a request would come to, and explain_why.go why,
// in sentences. control.go is what operators change while it serves, and how they
// name the keys to be purged.
package proxy

import (
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
	questions "github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/docs"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/unindexed"
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
	RPC         *rpc.Options         // nil: the RPC of the nodes is not served. Its Posting is that of all interfaces
	Posts       blocks.Posts         // of all interfaces together
	Listeners   docs.Listeners       // of the other interfaces, as the manual names them
	GRPC        *grpc.Options        // nil: neither gRPC nor gRPC-Web is served. As for the RPC
	ReadAhead   ReadAhead
}

// Cosmos is what the dialect of the Cosmos SDK takes beside Options.Chain.
type Cosmos struct {
	Rows    []cosmos.Row
	MaxBody int64 // as in [cosmos.Options]
}

// Server answers the public interface. Its goroutines end with the streams that
// it serves and with Run, so it needs no closing.
type Server struct {
	o       Options
	stack   *web.Stack
	list    *collections.Handler // nil: not served
	engine  *gin.Engine          // makes contexts, and routes nothing
	streams *stream.Handler
	posting *blocks.Posting

	unindexed unindexed.Txs
	rpc       *rpc.Handler            // nil: not served
	grpc      *grpc.Handler           // nil: not served
	surface   atomic.Pointer[surface] // replaced once, where the dialect was not known at first
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
	s := &Server{o: o, stack: web.New(o.Web, o.Cache), posting: blocks.NewPosting(o.Posts)}
	s.engine = newEngine(s.serve)
	o.Streams.Heights, o.Streams.Budget, o.Streams.Patience = o.Chain.Nodes, o.Cache, o.Chain.Patience
	s.streams = stream.New(o.Streams, s.stack)
	if o.Collections != nil {
		s.list = collections.New(*o.Collections, s.stack, o.Cache)
	}
	if err := s.openInterfaces(o); err != nil {
		return nil, err
	}
	if o.Undeclared {
		s.surface.Store(s.newUnknown())
		return s, nil
	}
	return s, s.speak(o)
}

// openInterfaces makes the interfaces that have no paths of ours.
func (s *Server) openInterfaces(o Options) error {
	costs := questions.CostsOf(chain.Rows(), cosmos.Rows(nil)) // a method is the same one whatever paths the nodes have
	if o.RPC != nil {
		reader, err := blocks.New(o.Chain.Reader(), s.stack, o.Cache)
		if err != nil {
			return err
		}
		options := *o.RPC
		options.Posting, options.State.Costs, options.State.Unindexed = s.posting, costs, &s.unindexed
		s.rpc = rpc.New(options, reader)
	}
	if o.GRPC != nil {
		reader, err := blocks.New(o.Chain.Reader(), s.stack, o.Cache)
		if err != nil {
			return err
		}
		options := *o.GRPC
		options.Posting, options.State.Costs, options.State.Unindexed = s.posting, costs, &s.unindexed
		s.grpc = grpc.New(options, reader)
	}
	return s.setInterfaceClasses(o.Chain.Classes)
}

// setInterfaceClasses puts other classes in force at these.
func (s *Server) setInterfaceClasses(classes blocks.Classes) error {
	if s.rpc != nil {
		if err := s.rpc.SetClasses(classes); err != nil {
			return err
		}
	}
	if s.grpc != nil {
		return s.grpc.SetClasses(classes)
	}
	return nil
}

// speak puts the dialect of the options in force.
func (s *Server) speak(o Options) error {
	v, err := s.newSurface(o)
	if err == nil {
		s.surface.Store(v)
	}
	return err
}

// SetDialect says what the nodes speak to a Server that did not know, with the classes in
// force: the dialect of Story where c is nil.
func (s *Server) SetDialect(c *Cosmos, classes blocks.Classes, own map[string]cache.Policy) error {
	if _, ok := s.now().dialect.(unknown); !ok {
		return errors.New("proxy: it is known what the nodes speak")
	}
	o := s.o
	o.Cosmos, o.Chain.Classes, o.Chain.Routes = c, classes, own
	defer s.Forget()
	return s.speak(o)
}

// described is what the documents tell of.
func (o Options) described() docs.Options {
	d := docs.Options{Chain: o.Chain, Collections: o.Collections, Listeners: o.Listeners}
	if o.Cosmos != nil {
		d.Cosmos = cosmos.Rows(o.Cosmos.Rows)
	}
	return d
}

// Document is the OpenAPI document of what a server with these options answers.
func Document(o Options) ([]byte, error) { return docs.Document(o.described()) }

// RPC answers the RPC of the nodes, on a listener of its own; nil where it is not served.
func (s *Server) RPC() *rpc.Handler { return s.rpc }

// SetUnindexed says what knows transactions that are in a block and that nodes do not find.
func (s *Server) SetUnindexed(index unindexed.Index) { s.unindexed.Set(index) }

// GRPC answers the gRPC of the nodes, on a listener of its own; nil where it is not served.
func (s *Server) GRPC() *grpc.Handler { return s.grpc }

// ServesWeb tells whether gRPC-Web is served, beside REST.
func (s *Server) ServesWeb() bool { return s.grpc != nil && s.o.GRPC.Web }

// Handler is the whole public surface.
func (s *Server) Handler() http.Handler { return s }

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.stack.Serve(s.engine, w, s.now().tidied(r))
}

// serve answers a request that has its path in its one spelling.
func (s *Server) serve(c *gin.Context) {
	if s.ServesWeb() && grpc.IsWeb(c.Request) {
		s.grpc.ServeWeb(c.Writer, c.Request)
		return
	}
	v := s.now()
	rt := v.route(c.Request)
	c.Status(http.StatusOK) // not Gin's, for a path that it does not know
	switch {
	case rt.Feed != nil && wantsStream(c.Request):
		v.stream(rt)(c)
	case rt.Feed != nil && stream.IsPoll(c.Request):
		v.poll(rt)(c)
	default:
		rt.Handler(c)
	}
	c.Writer.WriteHeaderNow()
}

// now is what answers at present.
func (s *Server) now() *surface { return s.surface.Load() }

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

// tidied is the request without what only streams read and without the heights that its URL names, which both
// are found nonetheless, and with its path in its one spelling: a trailing slash and doubled slashes are the
// same resource. The node of Story answers them with a 404 and an empty redirect; one of the SDK tells
// spellings apart.
func (v *surface) tidied(r *http.Request) *http.Request {
	r = blocks.WithoutHeights(stream.WithoutOptions(r))
	path := tidyPath(r.URL.Path)
	if path == r.URL.Path || v.exact && !strings.HasPrefix(path, collections.Prefix) {
		return r
	}
	tidied, u := *r, *r.URL
	u.Path, u.RawPath = path, ""
	tidied.URL = &u
	return &tidied
}

// newEngine makes a Gin that makes contexts alone: no routes, no redirects and no middleware.
func newEngine(serve gin.HandlerFunc) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.NoRoute(serve)
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
