package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/docs"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/fallback"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// Options configure a Server. Cache is required.
type Options struct {
	Cache       *cache.Cache
	Web         web.Options
	Chain       blocks.Options          // how all interfaces read the chain. Chain.Nodes is required
	Routes      map[string]cache.Policy // policies of single routes of the chain, by name
	Rows        []dialect.Row           // the operator's rows for paths, which take precedence
	Methods     []dialect.Row           // the operator's rows for gRPC methods, which take precedence
	Dialect     node.Dialect            // default Story
	Story       story.Options           // only for Story. New sets NoSuchPath
	Collections *collections.Options    // nil disables the collection listing
	Streams     stream.Options          // New sets Heights, Budget and Patience
	RPC         *rpc.Options            // nil disables the RPC. New sets Posting, AwaitItem and State.Rows
	Posts       blocks.Posts            // transactions of all interfaces together
	Listeners   docs.Listeners          // addresses of the other interfaces, for the manual
	GRPC        *grpc.Options           // nil disables gRPC and gRPC-Web. New sets Posting and State.Rows
	ReadAhead   ReadAhead
	Mounts      []Mount // base paths of the chain; the default is the root
}

// A Mount is a base path below which the chain is served, with the documents, batches, streams and the collection
// listing. The operator lists them in http.mounts.
type Mount struct {
	Path     string      `yaml:"path"`     // "/" for the root
	Shape    story.Shape `yaml:"shape"`    // default Story.Shape
	Fallback string      `yaml:"fallback"` // URL of the service for paths that the mount does not have; "" for none
	Always   []string    `yaml:"always"`   // patterns of paths that the service always answers

	PassAuthorization bool `yaml:"pass_authorization"` // the service gets the header Authorization of requests
}

func (o *Options) mounts() []Mount {
	if len(o.Mounts) == 0 {
		return []Mount{{Path: "/"}}
	}
	return o.Mounts
}

func (m Mount) base() string { return strings.TrimSuffix(m.Path, "/") }

// New returns a Server with all routes. It checks the options and fills in the defaults.
func New(o Options) (*Server, error) {
	if o.Cache == nil || o.ReadAhead.Share > 0 && o.ReadAhead.Room == nil {
		return nil, errors.New("proxy: Cache is required, and ReadAhead.Room if Share is set")
	}
	o.Mounts = o.mounts()
	s := &Server{o: o, stack: web.New(o.Web, o.Cache), posting: blocks.NewPosting(o.Posts), fallbacks: make([]*fallback.Service, len(o.Mounts))}
	o.Streams.Heights, o.Streams.Budget, o.Streams.Patience = o.Chain.Nodes, o.Cache.Account(), o.Chain.Patience
	s.streams = stream.New(o.Streams, s.stack)
	if o.Collections != nil {
		s.list = collections.New(*o.Collections, s.stack, o.Cache)
	}
	if err := s.openInterfaces(o); err != nil {
		return nil, err
	}
	s.root = s.newRouter("", o.Story.Shape)
	s.root.chainAPI = noChain{}
	s.root.mount(nil)
	for i, m := range o.Mounts {
		if m.Fallback != "" {
			target, err := url.Parse(m.Fallback)
			if err != nil {
				return nil, fmt.Errorf("proxy: %w", err)
			}
			var passed []string
			if m.PassAuthorization {
				passed = []string{"Authorization"}
			}
			s.fallbacks[i] = fallback.New(target, m.base(), passed, s.stack, o.Cache.Account())
		}
	}
	if err := s.mountChain(o); err != nil {
		return nil, err
	}
	var engines []*web.Engine
	for _, v := range s.routers() {
		engines = append(engines, v.engine)
	}
	s.Handler = s.stack.Handler(s.passesHealth, engines...)
	return s, nil
}

// openInterfaces creates the interfaces that have listeners of their own.
func (s *Server) openInterfaces(o Options) error {
	s.methods = dialect.MethodRows(o.Methods, story.Rows(nil), cosmos.Rows(nil)) // they do not depend on the paths of the nodes
	open := func(posting **blocks.Posting, values *state.Options) (*blocks.Reader, error) {
		*posting, values.Rows = s.posting, s.methods
		reader, err := blocks.New(o.Chain, s.stack, o.Cache)
		s.readers = append(s.readers, reader)
		return reader, err
	}
	if o.RPC != nil {
		options := *o.RPC
		options.AwaitItem = s.streams.AwaitItem
		reader, err := open(&options.Posting, &options.State)
		if err != nil {
			return err
		}
		s.rpc = rpc.New(options, reader)
	}
	if o.GRPC != nil {
		options := *o.GRPC
		reader, err := open(&options.Posting, &options.State)
		if err != nil {
			return err
		}
		s.grpc = grpc.New(options, reader)
	}
	return nil
}

// hasBothShapes reports whether some mounts answer in one shape, and some in the other.
func (o *Options) hasBothShapes() bool {
	return slices.ContainsFunc(o.Mounts, func(m Mount) bool {
		return cmp.Or(m.Shape, o.Story.Shape, story.Documented) != cmp.Or(o.Mounts[0].Shape, o.Story.Shape, story.Documented)
	})
}

// mountChain mounts the chain at its base paths.
func (s *Server) mountChain(o Options) error {
	if o.Dialect != node.Cosmos && o.hasBothShapes() {
		o.Chain.Nodes = story.ShareReads(o.Chain.Nodes, o.Cache.Account(), s.stack.Logger())
	}
	for i, m := range o.Mounts {
		o.Story.Shape = cmp.Or(m.Shape, s.o.Story.Shape)
		v := s.newRouter(m.base(), o.Story.Shape)
		always, err := dialect.ParsePatterns(m.Always)
		if v.fallback, v.always = s.fallbacks[i], always; err == nil {
			err = v.use(o)
		}
		if err != nil {
			return err
		}
		s.mounts = append(s.mounts, v)
	}
	slices.SortFunc(s.mounts, func(a, b *router) int { return cmp.Compare(len(b.base), len(a.base)) })
	return nil
}

// docsOptions returns the options of the documents of the mount at a base path.
func (o Options) docsOptions(base string) docs.Options {
	d := docs.Options{Base: base, Story: o.Story, Rows: o.Rows, Auth: o.Chain.Auth, Collections: o.Collections, Listeners: o.Listeners}
	d.Listeners.GRPCWeb = o.GRPC != nil
	if o.Dialect == node.Cosmos {
		d.Cosmos = cosmos.Described(o.Rows)
	}
	return d
}

// Document returns the OpenAPI document of the mount at a path of a server with these options.
func Document(o Options, path string) ([]byte, error) {
	var paths []string
	for _, m := range o.mounts() {
		if m.Path == path {
			o.Story.Shape = cmp.Or(m.Shape, o.Story.Shape)
			return docs.Document(o.docsOptions(m.base())), nil
		}
		paths = append(paths, m.Path)
	}
	return nil, fmt.Errorf("nothing is mounted at %q; expected one of %q", path, paths)
}

// RPC returns the handler of the nodes' RPC, for a listener of its own; nil if it is not served.
func (s *Server) RPC() *rpc.Handler { return s.rpc }

// GRPC returns the handler of the nodes' gRPC, for a listener of its own; nil if it is not served.
func (s *Server) GRPC() *grpc.Handler { return s.grpc }

// Fallbacks returns the fallback services of the mounts.
func (s *Server) Fallbacks() []*fallback.Service {
	return slices.DeleteFunc(slices.Clone(s.fallbacks), func(f *fallback.Service) bool { return f == nil })
}

// A chainAPI is the interface to the chain in the dialect of its nodes.
type chainAPI interface {
	// Route returns the route of a request; false if its path is not one of the dialect.
	Route(r *web.Request) (rt web.Route, ok bool)
	// Routes returns the routes whose patterns alone decide which paths they serve.
	Routes() []web.Route
	// Endpoint returns the endpoint of a request's path; nil for none.
	Endpoint(r *web.Request) *dialect.Endpoint
	// ReadHeights reads the blocks that a request names.
	ReadHeights(r *web.Request) (web.Heights, error)
	SelectRoute(name string) (cache.Selection, error)
	SelectAddress(address string) (cache.Selection, error)
}

// A router has the routes below a base path, all of which depend on the dialect.
type router struct {
	chainAPI
	*Server
	base     string            // "" for the root, else without a slash at its end
	shape    story.Shape       // Story only
	fallback *fallback.Service // nil for none
	always   dialect.Patterns  // paths that the fallback always answers
	passed   web.Route         // the route to it
	reader   *blocks.Reader
	batch    *blocks.Kind         // of the reads that a batch makes
	render   web.Renderer         // renders failures of the chain's paths
	exact    bool                 // paths are not brought into a canonical form
	fixed    map[string]web.Route // our own routes, by path
	engine   *web.Engine
	patterns []string // patterns of all routes, for suggestions
}

func (s *Server) newRouter(base string, shape story.Shape) *router {
	return &router{Server: s, base: base, shape: shape, render: story.RenderFailure, fixed: map[string]web.Route{}}
}

// use adds the routes of the dialect.
func (v *router) use(o Options) error {
	reader, err := blocks.New(o.Chain, v.stack, o.Cache)
	if err != nil {
		return err
	}
	batch := &blocks.Kind{Name: batchRoute, Class: blocks.Live, NoFuture: true} // all parts are reads of state
	v.reader, v.batch = reader, batch
	if o.Dialect != node.Cosmos {
		reader.Add(batch)
		o.Story.NoSuchPath = v.noSuchPath
		v.chainAPI, err = story.New(o.Story, o.Rows, reader)
		for _, row := range story.Rows(o.Rows) {
			v.patterns = append(v.patterns, row.Pattern)
		}
	} else {
		v.exact, v.render = true, cosmos.RenderFailure
		batch.Headers = func(*cache.Entry, string) blocks.ResponseHeaders {
			return blocks.ResponseHeaders{Vary: cosmos.VaryHeights}
		}
		reader.Add(batch)
		v.chainAPI, err = cosmos.New(cosmos.Options{Rows: o.Rows, Posting: v.posting}, reader)
	}
	if err == nil {
		err = reader.SetClasses(o.Chain.Classes, o.Routes)
	}
	if err == nil {
		v.mountAll(docs.New(o.docsOptions(v.base), v.stack, o.Cache).Routes())
	}
	return err
}

// mount adds the paths of the collection listing and the given routes.
func (v *router) mount(routes []web.Route) {
	if v.list != nil {
		routes = slices.Concat(v.list.Routes(), routes)
	}
	for _, rt := range routes {
		v.fixed[rt.Pattern] = rt
		v.patterns = append(v.patterns, rt.Pattern)
	}
	v.engine = v.newEngine()
}

// mountAll adds the fixed paths of a router that serves the chain.
func (v *router) mountAll(routes []web.Route) {
	read := []string{http.MethodGet, http.MethodHead}
	if v.fallback != nil {
		v.passed = web.Route{Name: fallback.Name, Methods: read, Keyed: v.o.Chain.Auth, Serve: v.fallback.Serve, Render: v.render}
	}
	keyed := v.o.Chain.Auth
	v.fixed[blocks.BatchPath] = web.Route{Name: batchRoute, Methods: read, Keyed: keyed, Serve: v.serveBatch, Render: v.render, Plan: v.planBatch}
	v.fixed[stream.LivePath] = v.streams.Route(web.Route{
		Pattern: stream.LivePath, Methods: read, Keyed: keyed, Render: v.render, Access: stream.LivePath,
		Plan: func(*web.Request) (web.Plan, error) {
			return web.Plan{}, failure.BadInput("%s streams the responses of other paths: explain those", stream.LivePath)
		},
	}, v.liveSources)
	v.mount(routes)
}

// noChain is the chainAPI at the root if no mount is there.
type noChain struct{ chainAPI }

func (noChain) Route(*web.Request) (rt web.Route, ok bool) { return rt, false }
func (noChain) Routes() []web.Route                        { return nil }
