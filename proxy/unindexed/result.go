package unindexed

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/events"
)

// Result is the result of the RPC's method tx.
func Result(tx *events.Transaction, prove bool) []byte {
	b := fmt.Appendf(nil, `{"hash":"%X","height":"%d","index":%d,"tx_result":%s,"tx":"%s"`,
		tx.Hash, tx.Height, tx.Index, tx.Result, base64.StdEncoding.EncodeToString(tx.Bytes))
	if prove {
		b = fmt.Appendf(b, `,"proof":%s`, proof(tx))
	}
	return append(b, '}')
}

// SearchResult is the result of the method tx_search that has a part of so many.
func SearchResult(part []*events.Transaction, all int, prove bool) []byte {
	b := []byte(`{"txs":[`)
	for i, tx := range part {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, Result(tx, prove)...)
	}
	return fmt.Appendf(b, `],"total_count":"%d"}`, all)
}

// proof is that a transaction is in its block, whose header has the root.
func proof(tx *events.Transaction) []byte {
	leaves := make([][]byte, len(tx.Block))
	for i, hash := range tx.Block {
		leaves[i] = hashOf(0, hash[:])
	}
	root, aunts := tree(leaves, tx.Index)
	encoded, _ := json.Marshal(append([][]byte{}, aunts...)) // no slice of bytes cannot be written
	raw := base64.StdEncoding.EncodeToString(tx.Bytes)
	return fmt.Appendf(nil, `{"root_hash":"%X","data":"%s","proof":{"total":"%d","index":"%d","leaf_hash":"%s","aunts":%s}}`,
		root, raw, len(leaves), tx.Index, base64.StdEncoding.EncodeToString(leaves[tx.Index]), encoded)
}

// tree is the root of a Merkle tree as RFC 6962 has it, and the hashes from beside one of its
// leaves up to the root; place -1 is none of them.
func tree(leaves [][]byte, place int) (root []byte, aunts [][]byte) {
	if len(leaves) == 1 {
		return leaves[0], nil
	}
	split := 1 << (bits.Len(uint(len(leaves)-1)) - 1) // the greatest power of two that is less
	in := func(begin, end int) int {
		if place < begin || place >= end {
			return -1
		}
		return place - begin
	}
	left, onLeft := tree(leaves[:split], in(0, split))
	right, onRight := tree(leaves[split:], in(split, len(leaves)))
	switch {
	case place < 0:
	case place < split:
		aunts = slices.Concat(onLeft, [][]byte{right})
	default:
		aunts = slices.Concat(onRight, [][]byte{left})
	}
	return hashOf(1, left, right), aunts
}

// hashOf is the hash of a leaf, behind a 0, or of an inner node, behind a 1.
func hashOf(kind byte, parts ...[]byte) []byte {
	h := sha256.New()
	_, _ = h.Write([]byte{kind})
	for _, part := range parts {
		_, _ = h.Write(part)
	}
	return h.Sum(nil)
}

// JSON is REST's answer to the hash of a transaction, which a node has decoded.
func JSON(tx *events.Transaction, decoded string) []byte {
	return fmt.Appendf(nil, `{"tx":%s,"tx_response":%s}`, decoded, responseJSON(tx, decoded))
}

// SearchJSON is REST's answer to a search that has a part of so many transactions, each of which a
// node has decoded.
func SearchJSON(part []*events.Transaction, all int, decoded func(*events.Transaction) string) []byte {
	var txs, responses []byte
	for i, tx := range part {
		if i > 0 {
			txs, responses = append(txs, ','), append(responses, ',')
		}
		txs = append(txs, decoded(tx)...)
		responses = append(responses, responseJSON(tx, decoded(tx))...)
	}
	return fmt.Appendf(nil, `{"txs":[%s],"tx_responses":[%s],"pagination":null,"total":"%d"}`, txs, responses, all)
}

// responseJSON is a TxResponse.
func responseJSON(tx *events.Transaction, decoded string) []byte {
	of := func(member, without string) string {
		return cmp.Or(gjson.GetBytes(tx.Result, member).Raw, without)
	}
	data, _ := base64.StdEncoding.DecodeString(gjson.GetBytes(tx.Result, "data").String()) // null is empty
	return fmt.Appendf(nil, `{"height":"%d","txhash":"%X","codespace":%s,"code":%s,"data":"%X","raw_log":%s,"logs":[],"info":%s,"gas_wanted":%s,"gas_used":%s,`+
		`"tx":{"@type":"/cosmos.tx.v1beta1.Tx",%s,"timestamp":"%s","events":%s}`,
		tx.Height, tx.Hash, of("codespace", `""`), of("code", "0"), data, of("log", `""`), of("info", `""`), of("gas_wanted", `"0"`), of("gas_used", `"0"`),
		decoded[1:], timestamp(tx), of("events", "[]"))
}
