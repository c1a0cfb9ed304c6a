package rpc

import (
	"log/slog"
	"regexp"
	"sync"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/node"
)

// DefaultMethods are the known methods of nodes that differ from CometBFT's, and only read.
var DefaultMethods = []string{
	// https://github.com/celestiaorg/celestia-core, package rpc/core
	"data_commitment", "data_root_inclusion_proof", "prove_shares", "prove_shares_v2", "signed_block", "tx_status", "tx_status_batch",
	// https://github.com/sei-protocol/sei-tendermint, package internal/rpc/core
	"lag_status",
	// https://github.com/bnb-chain/greenfield-cometbft, package rpc/core
	"query_vote",
}

// IsName matches names of methods as nodes have them.
var IsName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// withPassed returns all methods: the built-in ones, and names that are passed to a node as they are. What these cost and
// read is not known.
func withPassed(names []string) map[string]*method {
	all := map[string]*method{}
	for _, name := range names {
		all[name] = &method{name: name, class: blocks.Never, cost: node.Unknown}
	}
	for name, m := range methods {
		all[name] = m
	}
	return all
}

// maxHints is how many refused methods are logged. The names are the clients' own.
const maxHints = 100

// hints are the refused methods that were logged.
type hints struct {
	log *slog.Logger

	mu    sync.Mutex
	given map[string]bool
}

// refused logs a method that is not served, once.
func (h *hints) refused(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.given[name] || len(h.given) >= maxHints || !IsName.MatchString(name) {
		return
	}
	if h.given == nil {
		h.given = map[string]bool{}
	}
	h.given[name] = true
	h.log.Info("refused RPC method", "method", name, "hint", "if the nodes have it and it only reads, add it to rpc.methods")
}
