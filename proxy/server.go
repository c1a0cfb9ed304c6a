// Package proxy is the public HTTP surface: the routes of the chain query
// interface, their parameters, the shape of what they answer, and the
// collection listing beside them.
//
// A request for the chain goes, top to bottom:
//
//  1. routes.go names the row of the table it belongs to;
//  2. question.go reads the row's parameters, and nothing else of the request,
//     into one canonical question: the cache key and what the node is asked;
//  3. chain.go settles at which block it is to be answered (heights.go) and
//     asks the cache;
//  4. origin.go, on a miss, makes an entry of the node's answer, which
//     reshape.go and forms.go bring into its documented shape;
//  5. respond.go writes what came of it, and what is true about it, in headers.
//
// Whatever fails on the way is an error that failure.go turns into a status.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/node"
)

// Chain is what the proxy needs of the chain's nodes; *node.Pool has it.
type Chain interface {
	// Fetch asks a node. A refusal is an answer; an error is silence.
	Fetch(ctx context.Context, r node.Request) (*node.Answer, error)
	// Tip is the newest block known. It is asked for on every request.
	Tip() node.Tip
	// WaitHeight returns nil once the tip has reached the height.
	WaitHeight(ctx context.Context, height int64) error
	// Raise reports a height that another replica has read at.
	Raise(height int64)
}

// Shape says whose JSON the chain's routes answer with.
type Shape string

// The shapes.
const (
	Documented Shape = "documented" // the documented interface: every required field, statuses that mean something
	Node       Shape = "node"       // the node's own bytes, statuses and error texts
)

// Options configure a Server. Nodes and Cache are required.
type Options struct {
	Nodes   Chain
	Cache   *cache.Cache
	Classes Classes                 // Server.SetClasses replaces them
	Routes  map[string]cache.Policy // single routes, by name, in place of their class's policy

	Shape          Shape         // default Documented
	MaxPageLimit   uint64        // largest pagination.limit; default 100000
	MaxURL         int           // longest request target in bytes; default 8 KiB
	MaxHeader      int           // largest request header in bytes; default 16 KiB. The http.Server should let more than that through
	RequestTimeout time.Duration // from the request's arrival to the answer; default 15 s
	MinHeightWait  time.Duration // how long X-Min-Block-Height waits for its block; default 10 s

	Collections *CollectionsOptions // nil: the collection listing is not served
	ChainAuth   bool                // the chain's interface requires a key, too: one of Collections.Keys

	CORSOrigins  []string // whose pages may read the answers: exact origins, "*" for any, "none"; default "*"
	AllowNoCache bool     // a request's Cache-Control: no-cache is obeyed, not ignored

	Limits       Limits // how often clients may ask; Server.SetLimits replaces them
	SharedLimits SharedLimits

	AccessLog    io.Writer // gets a line of JSON for each request that is of Logger's level; nil: none
	OnlyFailures bool      // of these, only the lines for a status of 500 and more
	SkipLog      float64   // share of the lines for successful requests (status below 400) that is not written; default 0
	Logger       *slog.Logger
	Registerer   prometheus.Registerer
	Tracing      trace.TracerProvider // nil: no traces
}

// Server answers the public interface. It owns no goroutine and needs no
// closing.
type Server struct {
	o       Options
	log     *slog.Logger
	access  zerolog.Logger
	engine  *gin.Engine
	explain *gin.Engine // the same routes, explained
	metrics *metrics
	tracer  trace.Tracer // nil: no traces
	limiter *limiter
	cors    cors
	seed    maphash.Seed // digests of the node's raw answers, of this process alone

	// What can be replaced while serving, read without a lock.
	policies atomic.Pointer[policies]
	limits   atomic.Pointer[Limits]
	keys     *keyring
}

// New checks the options, fills in the defaults and mounts every route.
func New(o Options) (*Server, error) {
	if o.Nodes == nil || o.Cache == nil {
		return nil, errors.New("proxy: Nodes and Cache are required")
	}
	if o.Collections != nil && o.Collections.Store == nil {
		return nil, errors.New("proxy: Collections.Store is required")
	}
	o = o.withDefaults()
	if o.Shape != Documented && o.Shape != Node {
		return nil, fmt.Errorf("proxy: unknown shape %q", o.Shape)
	}
	m := newMetrics(o.Registerer)
	s := &Server{o: o, log: o.Logger, access: zerolog.New(o.AccessLog), metrics: m, tracer: tracerOf(o.Tracing), cors: newCORS(o.CORSOrigins), seed: maphash.MakeSeed(), keys: newKeyring(nil)}
	s.limiter = &limiter{newBuckets(), newSharedBuckets(o.SharedLimits, o.Logger), m}
	s.SetLimits(o.Limits)
	if err := s.SetClasses(o.Classes, o.Routes); err != nil {
		return nil, err
	}
	s.engine, s.explain = newEngine(), newEngine()
	s.mountChain(s.engine)
	if o.Collections != nil {
		s.mountCollections(s.engine)
	}
	s.mountDescription(s.engine)
	s.mountMisses(s.engine)
	s.mountRest(s.explain)
	return s, nil
}

// Handler is the whole public surface.
func (s *Server) Handler() http.Handler { return s }

// ServeHTTP makes a trailing slash and doubled slashes the same resource: the
// node answers them with a 404 and an empty redirect.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.cors.allow(w.Header(), r.Header)
	s.engine.ServeHTTP(w, tidied(r))
}

// tidied is the request with its path in its one spelling.
func tidied(r *http.Request) *http.Request {
	path := tidyPath(r.URL.Path)
	if path == r.URL.Path {
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

// mountMisses answers what no route does: preflights, whose method no route
// has, and what is not served.
func (s *Server) mountMisses(r *gin.Engine) {
	r.NoRoute(s.observed(noRoute, s.writeMiss, s.orPreflight(func(c *gin.Context, _ *record) error { return s.noPath(c) })))
	r.NoMethod(s.observed(noRoute, s.writeMiss, s.orPreflight(func(c *gin.Context, _ *record) error { return noMethod(c) })))
}

func (s *Server) noPath(c *gin.Context) error {
	if s.o.Shape == Node && !strings.HasPrefix(c.Request.URL.Path, apiPrefix) {
		send(c.Writer, c.Request, http.StatusNotFound, "text/plain; charset=utf-8", []byte("404 page not found\n"))
		return nil
	}
	return &failure{Status: http.StatusNotFound, Public: "no such path: " + short(c.Request.URL.Path)}
}

func noMethod(c *gin.Context) error {
	return &failure{Status: http.StatusMethodNotAllowed, Public: "the method " + short(c.Request.Method) + " is not served here"}
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
