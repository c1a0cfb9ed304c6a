package rpc

import (
	"maps"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream/node"
)

type method struct {
	name   string
	params []param
	class  blocks.Class // of its answers; Never means they are not cached
	cost   node.Cost
	write  bool // sent to one node, once
	slow   bool // the node waits for a block that includes the transaction
	waits  bool // takes waitParameter
}

// path returns the part of a method's cache keys before the parameters.
func (m *method) path() string { return "rpc/" + m.name }

// param describes a parameter. Their order is the one of positional parameters.
type param struct {
	name string
	kind kind
}

const abciQuery = "abci_query"

// isExclusive reports whether calls of a method wait for earlier calls and delay later ones. Writes are sent in
// the client's order, and a node runs one scan at a time.
func (m *method) isExclusive() bool { return m.write || m.cost == node.Scan }

// broadcasts reports whether a method sends a transaction to the mempool.
func (m *method) broadcasts() bool { return strings.HasPrefix(m.name, "broadcast_tx_") }

// kind says how a parameter is encoded.
type kind int

const (
	integer  kind = iota // "5" in JSON, 5 or "5" in a URI
	text                 // "x"
	flag                 // true
	hexBytes             // "0a" in JSON, 0x0a in a URI
	b64Bytes             // "Cg==" in JSON, 0x0a in a URI
	raw                  // passed on as it is
)

var (
	height = param{"height", integer}
	prove  = param{"prove", flag}
	page   = param{"page", integer}
	pages  = []param{page, {"per_page", integer}}
	search = []param{{"query", text}, prove, page, {"per_page", integer}, {"order_by", text}}
	tx     = []param{{"tx", b64Bytes}}
)

// methods lists the methods, without socket methods and [Options.Methods]. An answer at an explicit height never changes
// once the block exists, except for a commit that is not canonical (origin.go). A call without a height reads the newest
// block.
var methods = index([]method{
	{name: abciQuery, params: []param{{"path", text}, {"data", hexBytes}, height, prove}, class: blocks.Live},

	{name: "block", params: []param{height}, class: blocks.Block},
	{name: "header", params: []param{height}, class: blocks.Block},
	{name: "block_results", params: []param{height}, class: blocks.Block, cost: node.Page},
	{name: "commit", params: []param{height}, class: blocks.Block},
	{name: "consensus_params", params: []param{height}, class: blocks.Block},
	{name: "validators", params: append([]param{height}, pages...), class: blocks.Block, cost: node.Page},

	{name: "block_by_hash", params: []param{{"hash", b64Bytes}}, class: blocks.Found},
	{name: "header_by_hash", params: []param{{"hash", hexBytes}}, class: blocks.Found},
	{name: "tx", params: []param{{"hash", b64Bytes}, prove}, class: blocks.Found, waits: true},

	{name: "status", class: blocks.Latest},
	{name: "abci_info", class: blocks.Latest},
	{name: "blockchain", params: []param{{"minHeight", integer}, {"maxHeight", integer}}, class: blocks.Latest, cost: node.Page},
	{name: "tx_search", params: search, class: blocks.Latest, cost: node.Scan},
	{name: "block_search", params: append([]param{search[0]}, search[2:]...), class: blocks.Latest, cost: node.Scan},
	{name: "genesis", class: blocks.Never, cost: node.Scan},
	{name: "genesis_chunked", params: []param{{"chunk", integer}}, class: blocks.Never, cost: node.Page},

	{name: "health", class: blocks.Never},
	{name: "net_info", class: blocks.Never},
	{name: "unconfirmed_txs", params: []param{{"limit", integer}}, class: blocks.Never},
	{name: "num_unconfirmed_txs", class: blocks.Never},
	{name: "dump_consensus_state", class: blocks.Never, cost: node.Page},
	{name: "consensus_state", class: blocks.Never},

	{name: "broadcast_tx_sync", params: tx, class: blocks.Never, write: true, cost: node.Page},
	{name: "broadcast_tx_async", params: tx, class: blocks.Never, write: true, cost: node.Page},
	{name: "broadcast_tx_commit", params: tx, class: blocks.Never, write: true, slow: true, cost: node.Page},
	{name: "check_tx", params: tx, class: blocks.Never, write: true, cost: node.Page},
	{name: "broadcast_evidence", params: []param{{"evidence", raw}}, class: blocks.Never, write: true, cost: node.Page},
})

func index(all []method) map[string]*method {
	m := make(map[string]*method, len(all))
	for i := range all {
		m[all[i].name] = &all[i]
	}
	return m
}

// Names returns the methods that the RPC serves, including those of sockets, except those of [Options].
func Names() []string {
	return slices.AppendSeq([]string{"subscribe", "unsubscribe", "unsubscribe_all"}, maps.Keys(methods))
}

// HasMethod reports whether the RPC serves a method, including those of [Options] (passed) and of sockets.
func HasMethod(name string, passed []string) bool {
	return slices.Contains(passed, name) || slices.Contains(Names(), name)
}

// Select returns the selection of a method's cache entries by its route in metrics, such as "rpc block". It
// returns false if there is no such method or its answers are not cached.
func Select(route string) (all []cache.Selection, ok bool) {
	name, ours := strings.CutPrefix(route, "rpc ")
	m := methods[name]
	if !ours || m == nil || m.class == blocks.Never {
		return nil, false
	}
	all = []cache.Selection{{Path: m.path()}}
	if name == abciQuery {
		all = append(all, state.Select(""))
	}
	return all, true
}
