// Package chain is the dialect of Story: the interface to the chain's queries as its nodes
// speak, in the documented shape or their own.
//
// A request goes, top to bottom:
//
//  1. package dialect finds the row that it belongs to (routes.go), and reads the row's parameters, as
//     parameters.go says, and nothing else of the request: of a page as nodekeys.go says, with the
//     height of the page before (pagekey.go);
//  2. origin.go, on a miss, makes an entry of the node's answer, in the shape that
//     package documented gives it, with the height in its next page key (stamp.go);
//  3. unknown.go passes paths that no row describes to the node;
//  4. envelope.go writes what failed on the way in the interface's form.
package chain

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/failure"
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

	Rows []dialect.Row // of the operator's own; they come before the table's

	RefuseUnknown bool                                 // paths that no row describes are not passed to the nodes
	NoSuchPath    func(*http.Request) *failure.Failure // the failure for a path that neither a row nor a node has; required unless RefuseUnknown

	Shape         Shape         // default Documented
	Auth          bool          // a key is required
	MinHeightWait time.Duration // how long X-Min-Block-Height waits for its block; default 10 s
	Patience      time.Duration // how long a request waits for a block that its client has seen on the connection, as [cache.Patience] says
}

// WithDefaults fills in what was left zero.
func (o Options) WithDefaults() Options {
	o.Shape = cmp.Or(o.Shape, Documented)
	o.MinHeightWait = cmp.Or(o.MinHeightWait, limits.DefaultWait)
	return o
}

// Reader are the options of a Reader of the chain.
func (o Options) Reader() blocks.Options {
	return blocks.Options{Nodes: o.Nodes, Auth: o.Auth, MinHeightWait: o.MinHeightWait, Patience: o.Patience}
}

// MaxPageLimit is the largest pagination.limit.
const MaxPageLimit = 100_000

// A Handler answers the chain's queries. It owns no goroutine.
type Handler struct {
	*dialect.Table

	o       Options
	unknown *unknown // nil refuses paths that no row describes
	asSent  bool     // the node's shape: values go to the node as they came
}

// New checks the options and fills in the defaults.
func New(o Options, r *blocks.Reader) (*Handler, error) {
	o = o.WithDefaults()
	if o.Shape != Documented && o.Shape != Node {
		return nil, fmt.Errorf("chain: unknown shape %q", o.Shape)
	}
	table := dialect.Options{
		Prefix: string(o.Shape), // so that shapes share no entries
		Depth:  moduleDepth, NoBody: true, Methods: []string{http.MethodGet, http.MethodHead}, Heights: blocks.HeightRules{EVM: true}, Render: RenderFailure,
	}
	h := &Handler{o: o, asSent: o.Shape == Node}
	if h.asSent {
		table.Manner, table.Heights.Loose, table.Heights.Pinned = dialect.Lenient, true, nodeHeight
	}
	h.Table = dialect.NewTable(table, r)
	for _, rt := range Table(o.Rows) {
		if err := h.mount(rt); err != nil {
			return nil, err
		}
	}
	if !o.RefuseUnknown {
		var err error
		if h.unknown, err = h.newUnknown(r); err != nil {
			return nil, err
		}
	}
	return h, r.SetClasses(o.Classes, o.Routes)
}

// Route returns the route of a request; false if no row matches its path and unknown paths are refused.
func (h *Handler) Route(r *http.Request) (web.Route, bool) {
	rt, ok := h.Table.Route(r)
	if !ok && h.unknown != nil {
		return h.unknown.Mounted, true
	}
	return rt, ok
}

// moduleDepth is how many segments tell most rows apart: staking, validators.
const moduleDepth = 2

// mount adds the path of a row.
func (h *Handler) mount(rt Route) error {
	lookup := rt.field
	if h.asSent {
		lookup = sentField
	}
	o := &origin{Handler: h, Route: rt}
	ep, err := h.Mount(rt.Row, lookup, &blocks.Kind{NoFuture: !h.asSent}, o)
	if err == nil && rt.page != nil && !h.asSent {
		ep.Page = o.readPage
	}
	return err
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
