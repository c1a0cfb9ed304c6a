package rpc

import (
	"log/slog"
	"maps"
	"regexp"
	"sync"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/node"
)

// DefaultMethods lists known read-only methods of nodes that differ from CometBFT.
var DefaultMethods = []string{
	// https://github.com/celestiaorg/celestia-core, package rpc/core
	"data_commitment", "data_root_inclusion_proof", "prove_shares", "prove_shares_v2", "signed_block", "tx_status", "tx_status_batch",
	// https://github.com/sei-protocol/sei-tendermint, package internal/rpc/core
	"lag_status",
	// https://github.com/bnb-chain/greenfield-cometbft, package rpc/core
	"query_vote",
}

// IsName matches valid method names.
var IsName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// withPassed returns all methods: the built-in ones and those passed to a node as they are, whose cost is unknown.
func withPassed(names []string) map[string]*method {
	all := map[string]*method{}
	for _, name := range names {
		all[name] = &method{name: name, class: blocks.Never, cost: node.Unknown}
	}
	maps.Copy(all, methods)
	return all
}

// maxHints is the maximum number of refused methods to log, because clients choose the names.
const maxHints = 100

// refusals remembers which refused methods were logged.
type refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	logged map[string]bool
}

func (h *refusals) logOnce(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.logged[name] || len(h.logged) >= maxHints || !IsName.MatchString(name) {
		return
	}
	h.logged[name] = true
	h.log.Info("refused RPC method", "method", name, "hint", "if the nodes have it and it only reads, add it to rpc.methods")
}
