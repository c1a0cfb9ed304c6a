// Package chain is the dialect of Story: the interface to the chain's queries as its nodes
// speak, in the documented shape or their own.
//
// A request goes, top to bottom:
//
//  1. routes.go has the row of the table that it belongs to; parameters.go and nodekeys.go say how
//     the values of the row's parameters are read;
//  2. parser.go has package dialect read the row's parameters, and nothing else of the request,
//     into one Question, at later pages of a list (pagekey.go) of the height of the page before;
//  3. origin.go, on a miss, makes an entry of the node's answer, in the shape that
//     package documented gives it, with the height in its next page key (stamp.go);
//  4. envelope.go writes what failed on the way in the interface's form.
package chain

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
)

// Shape says whose JSON the routes answer with.
type Shape string

// The shapes.
const (
	Documented Shape = "documented" // the documented interface: every required field, statuses that mean something
	Node       Shape = "node"       // the node's own bytes, statuses and error texts
)

// Options configure a Handler. Nodes is required.
type Options struct {
	Nodes   blocks.Nodes
	Classes blocks.Classes          // Handler.SetClasses replaces them
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

// Reader are the options of a Reader of the chain.
func (o Options) Reader() blocks.Options {
	return blocks.Options{Nodes: o.Nodes, Auth: o.Auth, MinHeightWait: o.MinHeightWait, Patience: o.Patience}
}

// A Handler answers the chain's queries. It owns no goroutine.
type Handler struct {
	*blocks.Reader

	o      Options
	prefix string       // of the keys, so that none is served as that of another shape
	asSent bool         // the node's shape: values go to the node as they came
	seed   maphash.Seed // digests of the node's raw answers, of this process alone
	index  *dialect.Index
	routes []web.Route         // of the rows, in order
	rows   []*dialect.Endpoint // the same
}

// New checks the options and fills in the defaults.
func New(o Options, r *blocks.Reader) (*Handler, error) {
	o = o.WithDefaults()
	if o.Shape != Documented && o.Shape != Node {
		return nil, fmt.Errorf("chain: unknown shape %q", o.Shape)
	}
	h := &Handler{Reader: r, o: o, prefix: string(o.Shape), asSent: o.Shape == Node, seed: maphash.MakeSeed()}
	var readers []*dialect.Reader
	for _, rt := range routes {
		p, err := newParser(h, rt)
		if err != nil {
			return nil, err
		}
		readers, h.routes = append(readers, p.reader), append(h.routes, p.mount())
	}
	h.index = dialect.NewIndex(moduleDepth, readers)
	return h, r.SetClasses(o.Classes, o.Routes)
}

// moduleDepth is how many segments tell most rows apart: staking, validators.
const moduleDepth = 2

// mount makes the path of a row.
func (p *parser) mount() web.Route {
	p.kind = p.Add(&blocks.Kind{Name: p.Name, Class: p.Class, NoFuture: !p.asSent, Essence: dialect.WithoutNextKey})
	ep := &dialect.Endpoint{Reader: p.Reader, Row: p.Row, Kind: p.kind, Parse: p.parse}
	p.rows = append(p.rows, ep)
	route := ep.Route(ep.Serve, RenderFailure)
	route.Methods, route.Pattern = methods, p.Pattern
	return route
}

// methods are the methods that the table answers.
var methods = []string{http.MethodGet, http.MethodHead}

// Route is what answers a path; not ok is one that no row has.
func (h *Handler) Route(r *http.Request) (rt web.Route, ok bool) {
	place, ok := h.index.Find(r.URL.Path)
	if ok {
		rt = h.routes[place]
	}
	return rt, ok
}

// Endpoint is that of a request's path, nil for one that no row has.
func (h *Handler) Endpoint(r *http.Request) *dialect.Endpoint {
	if place, ok := h.index.Find(r.URL.Path); ok {
		return h.rows[place]
	}
	return nil
}

// ReadHeights reads the blocks that a request names.
func (h *Handler) ReadHeights(r *http.Request) (blocks.Heights, error) { return h.heights().Read(r) }

// SelectRoute selects the keys of one row: those at explicit heights too.
func (h *Handler) SelectRoute(name string) (cache.Selection, error) {
	return dialect.SelectRoute(Rows(), h.prefix, name)
}

// SelectAddress selects the keys that name an address, or a public key: of
// queries about it, of the collection and of its metadata. The address may be
// written in any of its forms. What only lists it among others is not selected.
func (h *Handler) SelectAddress(address string) (cache.Selection, error) {
	if text, ok := readSent(address); ok && h.asSent && address != "" {
		return cache.Selection{Contains: string(dialect.AppendPath(nil, text))}, nil // as clients wrote it
	}
	for _, k := range []paramType{validatorAddress, accountAddress, publicKey} {
		if text, ok := k.Read(address); ok {
			return cache.Selection{Contains: text}, nil
		}
	}
	return cache.Selection{}, errors.New("expected an address: 0x and 40 hex digits, or bech32; or a public key: 0x and 66 hex digits")
}
