package web

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
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
	Whole   func(r *Request)               // serves requests whose records and failures have another form, as gRPC-Web, instead of all else
	Render  Renderer                       // renders failures
	Plan    func(r *Request) (Plan, error) // nil if Serve does not use the cache
	Feed    func(r *Request) (Feed, error) // nil if the route cannot be streamed
	Waits   bool                           // a request may wait until its item is found
}

// A Handler serves a request. Its error is rendered in the form of the route.
type Handler func(r *Request) error

// A Renderer renders a failure in the form of its API, and sets headers for it.
type Renderer func(r *Request, h http.Header, f *failure.Failure) (status int, typ string, body []byte)

// NoRoute is the name of the route of requests that match no route. Paths are not labels.
const NoRoute = "none"

// A Feed is a response that changes with the chain's blocks.
type Feed struct {
	Key     string        // equal for requests with the same meaning
	Min     int64         // the first response must not be older than this block; 0 for none
	Undated bool          // its responses do not depend on the state at a block
	Indexed bool          // its responses are items of the nodes' index, such as a transaction
	Fresh   time.Duration // how long a response is fresh if no tip is known
	Reader  FeedReader
	// ComparedBody returns the part of a body whose change makes a stream send it. It may return the body itself.
	ComparedBody func(body []byte) []byte
}

// A FeedReader reads the entries of a feed. Calls must not overlap.
type FeedReader interface {
	// Read returns the entry on behalf of a client, by whose name clients take turns, and the block that it is pinned to,
	// 0 if later blocks may change it. With newest, it returns only entries from the newest block, however long entries are
	// fresh. If it fails, the result may have an older entry and the error.
	Read(ctx context.Context, client string, newest bool) (res cache.Result, pinned int64, err error)
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
