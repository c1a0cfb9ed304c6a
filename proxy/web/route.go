package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
)

// Headers of our own.
const (
	HeightHeader    = "X-Block-Height"
	MinHeightHeader = "X-Min-Block-Height"
	EVMBlockHeader  = "X-Evm-Block"
	MinEVMHeader    = "X-Min-Evm-Block"
	SessionHeader   = "X-Session"       // a Token
	ResetHeader     = "X-Session-Reset" // the chain was set back behind the token of the request
	RequestIDHeader = "X-Request-Id"
	UnknownHeader   = "X-Unknown-Parameters" // names of the query that were ignored, and were probably meant
)

// MethodQuery is a GET with a body (RFC 10008): safe, and made again as one likes.
const MethodQuery = "QUERY"

// JSON is the media type of most bodies.
const JSON = "application/json"

// A Route says how the requests for a path are served.
type Route struct {
	Name    string   // label in metrics, logs and policies
	Methods []string // nil allows every method
	Pattern string   // the path; {name} stands for a segment
	Keyed   bool     // requests need an API key
	Serve   Handler
	Render  Renderer                            // renders failures
	Plan    func(r *http.Request) (Plan, error) // nil if Serve does not use the cache
	Feed    func(r *http.Request) (Feed, error) // nil if the route cannot be streamed
}

// NoRoute is the route's name where there is none: paths are not labels.
const NoRoute = "none"

// A Handler serves a request. Its error is rendered in the form of the route.
type Handler func(c *gin.Context, rec *Record) error

// A Feed is an answer that changes with the chain's blocks.
type Feed struct {
	Key     string        // of the request: two that mean the same have the same
	Height  int64         // at which it is read, and never changes; 0 for the newest
	Undated bool          // its answers say nothing of the state at a block
	Fresh   time.Duration // how long it serves where no tip is known
	// Read gives the answer at Height, or at the newest block where no node has that
	// one, on behalf of a client, by whose name clients take turns. An older answer is in
	// the result with the error that it stands in for. It is called once at a time.
	Read func(ctx context.Context, client string) (cache.Result, error)
	// Essence is the part of an answer's body whose change is news. It is the body
	// itself, or a copy.
	Essence func(body []byte) []byte
}

type eachBlockKey struct{}

// AtEachBlock has Feed.Read give no answer of an earlier block than the newest, however
// long answers are fresh.
func AtEachBlock(ctx context.Context) context.Context {
	return context.WithValue(ctx, eachBlockKey{}, true)
}

// IsAtEachBlock tells whether a context is one of AtEachBlock.
func IsAtEachBlock(ctx context.Context) bool { return ctx.Value(eachBlockKey{}) != nil }

// A Plan is what a request would ask of the cache, and on a miss of the origin.
type Plan struct {
	Route  string
	Class  string // of its freshness
	Asks   string // what the origin is asked
	Origin string // how it is called
	Query  cache.Query
}

// maxEcho bounds what of the client's own an answer repeats, in bytes.
const maxEcho = 64

// Short cuts a text of the client's, between two characters, to 64 bytes.
func Short(text string) string {
	if len(text) <= maxEcho {
		return text
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(text[:maxEcho-len(ellipsis)], "") + ellipsis
}
