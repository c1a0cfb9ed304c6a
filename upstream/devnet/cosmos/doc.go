// Package cosmos simulates the REST API of a Cosmos SDK node: grpc-gateway's routes,
// parameters, statuses and headers before a chain whose state moves with every block.
//
// The state is a pure function of seed, sizes and height, but for the
// transactions that were broadcast to it. What stands still on a quiet chain (parameters,
// authorizations, groups and the like) is data and the same at every height:
// documents.jsonl holds a path and its answer in each line, and routes.jsonl a pattern of
// such paths with the answer where there is no document.
//
// What every chain of the SDK does alike, whatever its REST API is, is exported: pages,
// redirects, bech32 and the source of all that looks random.
package cosmos

import (
	"cmp"
	"net/http"

	engine "github.com/tipcache/tipcache/upstream/devnet/state"
)

// Options say what the chain is like. The zero value is a whole chain.
type Options struct {
	ChainID    string // default "devnet-1"
	Seed       uint64 // varies generated addresses and hashes
	Delegators int    // delegations of the popular validator: default 1530
}

// A Chain is the state of a simulated chain. Its nodes share it.
type Chain struct {
	id      string
	layout  *layout
	mempool mempool
}

// NewChain makes the state of a chain.
func NewChain(o Options) *Chain {
	o.ChainID = cmp.Or(o.ChainID, "devnet-1")
	o.Delegators = cmp.Or(o.Delegators, 1530)
	return &Chain{id: o.ChainID, layout: newLayout(o.Seed, o.Delegators)}
}

type nodeView = engine.View

// A Clock is where a node stands.
type Clock = engine.Clock

// Handler serves the REST API of a node. A node without gRPC, by grpc.enable = false, has
// other texts, and errors that tell no height. Handler calls count, unless nil, for every
// request that reaches a state, with the URI and the height that is read.
func (c *Chain) Handler(n nodeView, noGRPC bool, count func(uri string, height int64)) http.Handler {
	if count == nil {
		count = func(string, int64) {}
	}
	return &gateway{chain: c, node: n, noGRPC: noGRPC, count: count}
}
