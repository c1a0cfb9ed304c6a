package cosmos

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"sync"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// A mempool holds what was broadcast. The next block takes everything in.
type mempool struct {
	mu  sync.Mutex
	txs []*broadcast
}

// A broadcast is a transaction from outside: one that sends coins, or something
// unknown that only counts.
type broadcast struct {
	hash     string
	from, to string // raw addresses; "" if unknown
	amount   int64
	sequence int64
	height   int64 // the block that takes it in
	raw      []byte
}

// hashOf names a transaction.
func hashOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hexText(sum[:])
}

// add puts a transaction in.
func (m *mempool) add(b *broadcast) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.txs = append(m.txs, b)
}

// find is a transaction by its hash, if it is in a block up to a height.
func (m *mempool) find(hash string, height int64) (found *broadcast) {
	m.each(height, func(b *broadcast) {
		if b.hash == hash {
			found = b
		}
	})
	return found
}

// sums are how many transactions of an account are in blocks up to a height, and what all
// transactions up to there have added to it.
func (m *mempool) sums(raw string, height int64) (sent, added int64) {
	m.each(height, func(b *broadcast) {
		if b.from == raw {
			sent, added = sent+1, added-b.amount-fee
		}
		if b.to == raw {
			added += b.amount
		}
	})
	return sent, added
}

// in are the transactions that a block takes in.
func (m *mempool) in(height int64) (all []*broadcast) {
	m.each(height, func(b *broadcast) {
		if b.height == height {
			all = append(all, b)
		}
	})
	return all
}

// each visits what is in blocks up to a height.
func (m *mempool) each(height int64, visit func(*broadcast)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.txs {
		if b.height <= height {
			visit(b)
		}
	}
}

// parseTx reads a raw transaction as far as the chain understands it: the first
// message's sender, receiver and amount, and the first signer's sequence.
func parseTx(raw []byte) (*broadcast, bool) {
	tx := fields(raw)
	if tx[1] == nil || tx[2] == nil {
		return nil, false
	}
	msg := fields(fields(fields(tx[1])[1])[2])
	b := &broadcast{hash: hashOf(raw), raw: raw}
	b.from, _ = decode(accountPrefix, string(msg[1]))
	b.to, _ = decode(accountPrefix, string(msg[2]))
	b.amount, _ = strconv.ParseInt(string(fields(msg[3])[2]), 10, 64)
	sequence, _ := protowire.ConsumeVarint(fields(fields(tx[2])[1])[3])
	b.sequence = int64(sequence)
	return b, true
}

// fields are the first values in a message, by number: the contents of those with a
// length, others as they are encoded. What follows something malformed is left out.
func fields(msg []byte) map[protowire.Number][]byte {
	all := map[protowire.Number][]byte{}
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		size := protowire.ConsumeFieldValue(num, typ, msg[max(0, n):])
		if n < 0 || size < 0 {
			break
		}
		value := msg[n : n+size]
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		if all[num] == nil {
			all[num] = value
		}
		msg = msg[n+size:]
	}
	return all
}

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

func simulate(q *query) (string, error) {
	b, ok := parseTx(q.posted.Bytes)
	if !ok {
		return "", state.Fail(state.Unknown, "codespace sdk code 2: tx parse error: invalid length; proto: invalid field number")
	}
	if expected, due := q.due(b); !due {
		return "", state.Fail(state.Unknown, "account sequence mismatch, expected %d, got %d: incorrect account sequence [cosmos/cosmos-sdk@v0.53.6/x/auth/ante/sigverify.go:364] with gas used: '33446'", expected, b.sequence)
	}
	return documents()["simulate"], nil
}

// A Transaction is one from outside that a block has taken in.
type Transaction struct {
	Raw    []byte
	Result string // what running it came to, as CometBFT's JSON has it
}

// Transactions are those of a block from outside, in order.
func (c *Chain) Transactions(height int64) (all []Transaction) {
	for _, b := range c.mempool.in(height) {
		all = append(all, Transaction{b.raw, fill("result", "from", words.Account(b.from), "to", words.Account(b.to), "amount", b.amount)})
	}
	return all
}

// Broadcast takes a transaction in as REST does in the mode SYNC, and says what the RPC
// says of it. It is known where it was taken in before.
func (c *Chain) Broadcast(n state.View, raw []byte) (result string, known bool) {
	q := &query{chain: c, node: n, now: n.Now(), posted: txRequest{Bytes: raw, Mode: "BROADCAST_MODE_SYNC"}}
	q.at(q.now.Height)
	text, _ := broadcastTx(q) // it has the mode
	r := gjson.Get(text, "tx_response")
	return fmt.Sprintf(`{"code":%s,"data":"","log":%s,"codespace":%s,"hash":%q}`, r.Get("code"), r.Get("raw_log").Raw, r.Get("codespace").Raw, hashOf(raw)), r.Get("code").Int() == 19
}
