package rpc

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/tipcache/tipcache/upstream/node"
)

// SetUnindexed puts in place what finds transactions that are in a block and that a node does
// not find: one that was stopped within a commit never indexes that block.
func (d *Handler) SetUnindexed(find func(hash [sha256.Size]byte) json.RawMessage) { d.unindexed = find }

// byHash is the search for one transaction, with which clients wait for theirs.
var byHash = regexp.MustCompile(`^\s*tx\.hash\s*=\s*'([0-9A-Fa-f]{64})'\s*$`)

// complete is what came of asking the nodes, or the answer that has a transaction which they do
// not find, or cannot be asked for.
func (o *origin) complete(a *node.Answer, err error) (*node.Answer, error) {
	hash, result := o.unfound(a, err)
	if len(hash) != sha256.Size {
		return a, err
	}
	tx := o.unindexed([sha256.Size]byte(hash))
	if tx == nil {
		return a, err
	}
	return &node.Answer{Reason: node.OK, Status: 200, NodeStatus: 200, Body: fmt.Appendf(nil, `"result":`+result, tx)}, nil
}

// unfound is the hash of a transaction that the nodes do not give, and the form of a result
// that has it.
func (o *origin) unfound(a *node.Answer, err error) (hash []byte, result string) {
	switch {
	case o.unindexed == nil || o.target != "" || o.unread != nil || o.a.of(o.m, "prove") != nil:
	case o.m.name == "tx" && (err != nil || a.Reason != node.OK && strings.Contains(a.Text+string(a.Body), "not found")):
		hash, _ = base64.StdEncoding.DecodeString(unquoted(o.a.of(o.m, "hash"))) // it was read
		return hash, `%s`
	case o.m.name == "tx_search" && (err != nil || strings.HasPrefix(string(a.Body), `"result":{"txs":[],`)):
		if m := byHash.FindStringSubmatch(unquoted(o.a.of(o.m, "query"))); m != nil {
			hash, _ = hex.DecodeString(m[1]) // it has its form
			return hash, `{"txs":[%s],"total_count":"1"}`
		}
	}
	return nil, ""
}
