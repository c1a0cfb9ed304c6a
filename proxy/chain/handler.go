// Package chain is the interface to the chain's queries: the routes, their
// parameters, and the shape of what they answer.
//
// A request goes, top to bottom:
//
//  1. routes.go has the row of the table that it belongs to; parameters.go and
//     pages.go say how the values of the row's parameters are read;
//  2. parser.go reads the row's parameters, and nothing else of the request,
//     into one canonical cacheRequest: the cache key and what the node is asked;
//  3. endpoint.go settles at which block it is to be answered (reader.go; walk.go
//     for later pages of a list), asks the cache by the policy of the row's class
//     (classes.go), and has the answer written;
//  4. origin.go, on a miss, makes an entry of the node's answer, in the shape that
//     package documented gives it, with the height in its next page key (stamp.go);
//  5. envelope.go writes what failed on the way in the interface's form.
//
// selection.go names the keys of a route or an address, to be purged.
package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// Nodes is what the interface needs of the chain's nodes; *node.Pool has it.
type Nodes interface {
	// Fetch asks a node. A refusal is an answer; an error is silence.
	Fetch(ctx context.Context, r node.Request) (*node.Answer, error)
	// Tip is the newest block known. It is asked for on every request.
	Tip() node.Tip
	// WaitHeight returns nil once the tip has reached the height.
	WaitHeight(ctx context.Context, height int64) error
	// Executed is the newest block of the execution client whose effects are in the
	// state of a block.
	Executed(ctx context.Context, height int64) (int64, error)
	// ChainID names the chain, "" while it is not known.
	ChainID() string
	// Raise reports a height that another replica has read at.
	Raise(height int64)
}

// Cache is what the interface needs of the cache; *cache.Cache has it.
type Cache interface {
	// Get answers a query from the stores, or by the origin.
	Get(ctx context.Context, q cache.Query, origin cache.Origin) (cache.Result, error)
	// Fresh answers a query from an entry in memory that is fresh now, if there
	// is one.
	Fresh(q cache.Query, now time.Time) (res cache.Result, ok bool)
}

// Shape says whose JSON the routes answer with.
type Shape string

// The shapes.
const (
	Documented Shape = "documented" // the documented interface: every required field, statuses that mean something
	Node       Shape = "node"       // the node's own bytes, statuses and error texts
)

// Options configure a Handler. Nodes is required.
type Options struct {
	Nodes   Nodes
	Classes Classes                 // Handler.SetClasses replaces them
	Routes  map[string]cache.Policy // single routes, by name, in place of their class's policy

	Shape         Shape         // default Documented
	Auth          bool          // a key is required
	MaxPageLimit  uint64        // largest pagination.limit; default 100000
	MinHeightWait time.Duration // how long X-Min-Block-Height waits for its block; default 10 s
	Patience      time.Duration // how long a request waits for a block that its client has seen on the connection; default 100 ms
}

// WithDefaults fills in what was left zero.
func (o Options) WithDefaults() Options {
	o.Shape = cmp.Or(o.Shape, Documented)
	o.MaxPageLimit = cmp.Or(o.MaxPageLimit, 100_000)
	o.MinHeightWait = cmp.Or(o.MinHeightWait, limits.DefaultWait)
	o.Patience = cmp.Or(o.Patience, cache.DefaultPatience)
	return o
}

// A Handler answers the chain's queries. It owns no goroutine.
type Handler struct {
	*Reader

	o        Options
	seed     maphash.Seed             // digests of the node's raw answers, of this process alone
	policies atomic.Pointer[Policies] // replaced while serving, read without a lock
}

// New checks the options and fills in the defaults.
func New(o Options, stack *web.Stack, c Cache) (*Handler, error) {
	if o.Nodes == nil {
		return nil, errors.New("chain: Nodes is required")
	}
	o = o.WithDefaults()
	if o.Shape != Documented && o.Shape != Node {
		return nil, fmt.Errorf("chain: unknown shape %q", o.Shape)
	}
	h := &Handler{Reader: NewReader(o, stack, c), o: o, seed: maphash.MakeSeed()}
	return h, h.SetClasses(o.Classes, o.Routes)
}

// Routes are the paths to be mounted, one for each row of the table.
func (h *Handler) Routes() []web.Route {
	all := make([]web.Route, len(routes))
	for row, rt := range routes {
		ep := &endpoint{h, newRequestParser(rt, &h.o), row}
		all[row] = web.Route{
			Methods: []string{http.MethodGet, http.MethodHead},
			Pattern: rt.Pattern,
			Handler: h.stack.Handle(rt.Name, WriteFailure, ep.serve),
			Render:  WriteFailure,
			Plan:    ep.plan,
			Feed:    ep.feed,
		}
	}
	return all
}
