package rpc

import (
	"maps"
	"regexp"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/node"
)

// Settings are the operator's settings of the RPC, with their keys in the section rpc.
type Settings struct {
	Methods []string `yaml:"methods" doc:"RPC methods that CometBFT does not have, and that tipcache passes to a node uncached, with at most a quarter of chain.in_flight. List only methods that read. Other unknown methods get -32601."`
}

// DefaultSettings returns the settings of an operator who sets none: known read-only methods of nodes that differ from CometBFT.
func DefaultSettings() Settings {
	return Settings{Methods: []string{
		// https://github.com/celestiaorg/celestia-core, package rpc/core
		"data_commitment", "data_root_inclusion_proof", "prove_shares", "prove_shares_v2", "signed_block", "tx_status", "tx_status_batch",
		// https://github.com/sei-protocol/sei-tendermint, package internal/rpc/core
		"lag_status",
		// https://github.com/bnb-chain/greenfield-cometbft, package rpc/core
		"query_vote",
	}}
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

// logRefusal logs a refused method, at most one a minute, because clients choose the names.
func (d *Handler) logRefusal(name string) {
	if IsName.MatchString(name) {
		d.refusals.Do(func() {
			d.reader.Stack.Logger().Info("refused RPC method", "method", name, "hint", "if the nodes have it and it only reads, add it to rpc.methods")
		})
	}
}
