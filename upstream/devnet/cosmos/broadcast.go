package cosmos

import (
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// A txRequest is the body of the transaction services.
type txRequest struct {
	Bytes []byte `json:"tx_bytes"`
	Mode  any    `json:"mode"`
}

// pending is a height that every transaction is below.
const pending = 1 << 62

// broadcastTx takes a transaction in. The status of a refusal is 200, too. In the mode
// ASYNC the answer does not tell of a wrong sequence.
func broadcastTx(q *query) (string, error) {
	async := q.posted.Mode == "BROADCAST_MODE_ASYNC"
	if q.posted.Mode != "BROADCAST_MODE_SYNC" && !async {
		return "", state.Fail(state.Unknown, "unsupported return type unspecified; supported types: sync, async")
	}
	b, ok := parseTx(q.posted.Bytes)
	if !ok {
		return txResponse(hashOf(q.posted.Bytes), 2, "invalid length; proto: invalid field number: tx parse error: tx parse error"), nil
	}
	if q.chain.mempool.find(b.hash, pending) != nil {
		return txResponse(b.hash, 19, ""), nil
	}
	expected, due := q.due(b)
	if !due && !async {
		return txResponse(b.hash, 32, fmt.Sprintf("account sequence mismatch, expected %d, got %d: incorrect account sequence", expected, b.sequence)), nil
	}
	if due {
		b.height = q.now.Height + 1
		q.chain.mempool.add(b)
	}
	return txResponse(b.hash, 0, ""), nil
}

// due says whether a transaction's sequence is the next one of its sender, those that wait
// for a block included.
func (q *query) due(b *broadcast) (expected int64, due bool) {
	if a := q.chain.byAddress[b.from]; a != nil {
		in, _ := q.chain.mempool.sums(b.from, q.Height)
		all, _ := q.chain.mempool.sums(b.from, pending)
		expected = q.sent(a) + all - in
	}
	return expected, b.sequence == expected
}

func txResponse(hash string, code int, log string) string {
	space := ""
	if code != 0 {
		space = "sdk"
	}
	return fmt.Sprintf(`{"tx_response":{"height":"0","txhash":%q,"codespace":%q,"code":%d,"data":"","raw_log":%q,"logs":[],"info":"","gas_wanted":"0","gas_used":"0","tx":null,"timestamp":"","events":[]}}`,
		hash, space, code, log)
}

// ofTx serves the transaction in the body.
func ofTx(serve func(*query, *broadcast) (string, error)) handler {
	return func(q *query) (string, error) {
		b, ok := parseTx(q.posted.Bytes)
		if !ok {
			return "", state.Fail(state.Unknown, "codespace sdk code 2: tx parse error: invalid length; proto: invalid field number")
		}
		return serve(q, b)
	}
}

func simulate(q *query, b *broadcast) (string, error) {
	if expected, due := q.due(b); !due {
		return "", state.Fail(state.Unknown, "account sequence mismatch, expected %d, got %d: incorrect account sequence [cosmos/cosmos-sdk@v0.53.6/x/auth/ante/sigverify.go:364] with gas used: '33446'", expected, b.sequence)
	}
	return documents()["simulate"], nil
}

// decodeTx shows a transaction as the chain understands it.
func decodeTx(_ *query, b *broadcast) (string, error) {
	return fmt.Sprintf(`{"tx":%s}`, gjson.Get(sendTx(b), "tx").Raw), nil
}
