// Package story is the dialect of Story: the REST API for queries of the chain, in the documented shape or the node's own.
//
// A request passes, in this order:
//
//  1. package dialect finds its row (routes.go) and reads the parameters of the row (parameters.go), including those of pages
//     (nodekeys.go) with the height of the previous page (walkkey.go);
//  2. on a miss, origin.go makes an entry of the node's answer, in the shape of package documented, with the height in its
//     next page key (stamp.go);
//  3. unknown.go passes paths without a row to the node;
//  4. envelope.go writes failures.
package story

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/web"
)

// Shape is the form of response bodies.
type Shape string

// The shapes.
const (
	Documented Shape = "documented" // the documented API: all required fields, meaningful statuses
	Node       Shape = "node"       // the node's own bytes, statuses and error texts
)

// Options configure a Handler.
type Options struct {
	Shape         Shape                               // default Documented
	RefuseUnknown bool                                // do not pass paths without a row to the nodes
	NoSuchPath    func(*web.Request) *failure.Failure // the failure for a path that neither a row nor a node has; required unless RefuseUnknown
}

// WithDefaults replaces zero values by defaults.
func (o Options) WithDefaults() Options {
	o.Shape = cmp.Or(o.Shape, Documented)
	return o
}

// MaxPageLimit is the largest pagination.limit.
const MaxPageLimit = 100_000

// A Handler answers the chain's queries. It owns no goroutine.
type Handler struct {
	*dialect.Table

	o       Options
	unknown *unknown // nil refuses paths that no row describes
	asSent  bool     // the node's shape: values are sent to the node unchanged
	seed    maphash.Seed
}

// New returns a Handler. rows are the operator's, which come before the built-in ones. It fails if the options or a row are invalid.
func New(o Options, rows []dialect.Row, r *blocks.Reader) (*Handler, error) {
	o = o.WithDefaults()
	if o.Shape != Documented && o.Shape != Node {
		return nil, fmt.Errorf("chain: unknown shape %q", o.Shape)
	}
	table := dialect.Options{
		Prefix: string(o.Shape), // so that shapes share no entries
		NoBody: true, Methods: []string{http.MethodGet, http.MethodHead}, Heights: web.HeightRules{EVM: true}, Render: RenderFailure,
	}
	h := &Handler{o: o, asSent: o.Shape == Node, seed: maphash.MakeSeed()}
	if h.asSent {
		table.Manner, table.Heights.Pinned = dialect.Lenient, nodeHeight
	}
	h.Table = dialect.NewTable(table, r)
	for _, rt := range Table(rows) {
		if err := h.mount(rt); err != nil {
			return nil, err
		}
	}
	var err error
	if !o.RefuseUnknown {
		h.unknown, err = h.newUnknown(r)
	}
	return h, err
}

// Route returns the route of a request; false if no row matches its path and unknown paths are refused.
func (h *Handler) Route(r *web.Request) (web.Route, bool) {
	rt, ok := h.Table.Route(r)
	if !ok && h.unknown != nil {
		return h.unknown.ep.Route, true
	}
	return rt, ok
}

func (h *Handler) mount(rt Route) error {
	lookup := rt.field
	if h.asSent {
		lookup = sentField
	}
	o := &origin{h: h, route: rt}
	ep, err := h.Mount(rt.Row, lookup, &blocks.Kind{NoFuture: !h.asSent}, o)
	if err == nil && rt.page != nil && !h.asSent {
		ep.Page = o.readPage
	}
	return err
}

// SelectAddress selects the keys that contain an address or a public key, in any of its forms: of queries about it, of the
// collection and of its metadata. It does not select lists that include it.
func (h *Handler) SelectAddress(address string) (cache.Selection, error) {
	if text, ok := readSent(address); ok && h.asSent && address != "" {
		return cache.Selection{Contains: string(dialect.AppendPath(nil, text))}, nil // as clients wrote it
	}
	for _, k := range []dialect.Kind{validatorAddress, accountAddress, publicKey} {
		if text, ok := k.Read(address); ok {
			return cache.Selection{Contains: text}, nil
		}
	}
	return cache.Selection{}, errors.New("expected an address: 0x and 40 hex digits, or bech32; or a public key: 0x and 66 hex digits")
}
