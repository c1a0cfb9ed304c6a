package web

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/record"
)

// MethodQuery is a GET with a body (RFC 10008). It is safe and can be repeated.
const MethodQuery = "QUERY"

// A Route says how the requests for a path are served.
type Route struct {
	Name    string   // label in metrics, logs and policies
	Methods []string // nil allows every method
	Pattern string   // the path; {name} stands for a segment
	Keyed   bool     // requests need an API key
	Access  string   // operation that the access rules apply to; "" if Serve applies them
	Serve   Handler
	Render  Renderer                            // renders failures
	Plan    func(r *http.Request) (Plan, error) // nil if Serve does not use the cache
	Feed    func(r *http.Request) (Feed, error) // nil if the route cannot be streamed
	Waits   bool                                // a request may wait until its item is found
}

// A Renderer renders a failure in the form of its API, and sets headers for it.
type Renderer func(r *http.Request, h http.Header, f *failure.Failure) (status int, typ string, body []byte)

// NoRoute is the name of the route of requests that match no route. Paths are not labels.
const NoRoute = "none"

// A Handler serves a request. Its error is rendered in the form of the route.
type Handler func(c *gin.Context, rec *record.Record) error

// A Feed is a response that changes with the chain's blocks.
type Feed struct {
	Key     string        // equal for requests with the same meaning
	Min     int64         // the first response must not be older than this block; 0 for none
	Undated bool          // its responses do not depend on the state at a block
	Indexed bool          // its responses are items of the nodes' index, such as a transaction
	Fresh   time.Duration // how long a response is fresh if no tip is known
	// Read returns the entry on behalf of a client, by whose name clients take turns, and the block that it is pinned to,
	// 0 if later blocks may change it. If it fails, the result may have an older entry and the error. Calls must not
	// overlap.
	Read func(ctx context.Context, client string) (res cache.Result, pinned int64, err error)
	// ComparedBody returns the part of a body whose change makes a stream send it. It may return the body itself.
	ComparedBody func(body []byte) []byte
}

type eachBlockKey struct{}

// AtEachBlock makes Feed.Read return only entries from the newest block, however long entries are fresh.
func AtEachBlock(ctx context.Context) context.Context {
	return context.WithValue(ctx, eachBlockKey{}, true)
}

// IsAtEachBlock reports whether a context is from AtEachBlock.
func IsAtEachBlock(ctx context.Context) bool { return ctx.Value(eachBlockKey{}) != nil }

type itemKey struct{}

// WithItem returns r with the newest entry of the item that r waited for.
func WithItem(r *http.Request, item *cache.Entry) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), itemKey{}, item))
}

// ItemOf returns the entry that WithItem added to a request; nil for none.
func ItemOf(r *http.Request) *cache.Entry {
	item, _ := r.Context().Value(itemKey{}).(*cache.Entry)
	return item
}

// A Plan describes the cache query of a request, and what a miss would read.
type Plan struct {
	Route  string
	Class  string // freshness class
	Asks   string // what the origin reads
	Origin string // its name
	Query  cache.Query
	Loader cache.Loader // reads the origin; nil if that is usually fast
	NoLane string       // why the fast lane never answers it; "" if it may

	Ignored string // parameters of the query that the route does not take; "" for none
}

// maxEcho bounds how much client input a response repeats, in bytes.
const maxEcho = 64

// Short cuts client input to 64 bytes, between two characters.
func Short(text string) string {
	if len(text) <= maxEcho {
		return text
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(text[:maxEcho-len(ellipsis)], "") + ellipsis
}

// AmbiguousPart returns the part of a decoded path that servers read in several ways, "" for none.
func AmbiguousPart(path string) string {
	for _, part := range []string{"..", "\\"} {
		if strings.Contains(path, part) {
			return strconv.Quote(part)
		}
	}
	if strings.ContainsFunc(path, unicode.IsControl) {
		return "control characters"
	}
	return ""
}
