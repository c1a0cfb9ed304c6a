// Package chain is the interface to the chain's queries: the routes, their
// parameters, and the shape of what they answer.
//
// A request goes, top to bottom:
//
//  1. routes.go has the row of the table (row.go) that it belongs to; parameters.go
//     and pages.go say how the values of the row's parameters are read;
//  2. parser.go reads the row's parameters, and nothing else of the request,
//     into one canonical Question: the cache key and what the node is asked;
//  3. endpoint.go has it answered: reader.go settles at which block (walk.go for
//     later pages of a list), and the cache is asked by the policy of the row's
//     class (classes.go);
//  4. origin.go, on a miss, makes an entry of the node's answer, in the shape that
//     package documented gives it, with the height in its next page key (stamp.go);
//  5. envelope.go writes what failed on the way in the interface's form.
//
// The table, the parameters and the origin are those of Story. The Reader and its
// Endpoints serve other dialects, too. feed.go has the answers that streams follow,
// and selection.go names the keys of an address, to be purged.
package chain

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"net/http"
	"strings"
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
	// Executed is the lowest known height, up to one, at which a block of the execution
	// client counts; 0 where it does not, and then the newest that does.
	Executed(ctx context.Context, height, number int64) (since, newest int64, err error)
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
	Patience      time.Duration // how long a request waits for a block that its client has seen on the connection, as [cache.Patience] says
}

// WithDefaults fills in what was left zero.
func (o Options) WithDefaults() Options {
	o.Shape = cmp.Or(o.Shape, Documented)
	o.MaxPageLimit = cmp.Or(o.MaxPageLimit, 100_000)
	o.MinHeightWait = cmp.Or(o.MinHeightWait, limits.DefaultWait)
	return o
}

// A Handler answers the chain's queries. It owns no goroutine.
type Handler struct {
	*Reader

	o      Options
	asSent bool         // the node's shape: values go to the node as they came
	seed   maphash.Seed // digests of the node's raw answers, of this process alone
}

// New checks the options and fills in the defaults.
func New(o Options, stack *web.Stack, c Cache) (*Handler, error) {
	o = o.WithDefaults()
	if o.Shape != Documented && o.Shape != Node {
		return nil, fmt.Errorf("chain: unknown shape %q", o.Shape)
	}
	r, err := NewReader(o, string(o.Shape), Rows(), stack, c)
	if err != nil {
		return nil, err
	}
	r.strict = o.Shape == Documented
	return &Handler{Reader: r, o: o, asSent: o.Shape == Node, seed: maphash.MakeSeed()}, nil
}

// Routes are the paths to be mounted, one for each row of the table.
func (h *Handler) Routes() []web.Route {
	all := make([]web.Route, len(routes))
	for place, rt := range routes {
		ep := h.Endpoint(place, newParser(h, rt), nil)
		all[place] = ep.Route(ep.Serve, WriteFailure)
		all[place].Methods = []string{http.MethodGet, http.MethodHead}
		all[place].Pattern = ginPattern.Replace(rt.Pattern)
	}
	return all
}

// ginPattern writes a pattern as Gin reads it.
var ginPattern = strings.NewReplacer("{", ":", "}", "")
