package cosmos

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// DelegateTx is a transaction that is on every chain, in block 18.
const DelegateTx = "EBD29CADFCEE5D7D8E31C5EF2736C1612CECF15ADC88A400A8F5491BE8E6849A"

func hexText(raw []byte) string { return strings.ToUpper(hex.EncodeToString(raw)) }

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
	height   int64 // the block that takes it in
	raw      []byte
}

// upTo are the transactions in blocks up to a height.
func (m *mempool) upTo(height int64) (all []*broadcast) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.txs {
		if b.height <= height {
			all = append(all, b)
		}
	}
	return all
}

// find is a transaction by its hash, if it is in a block up to a height.
func (m *mempool) find(hash string, height int64) *broadcast {
	for _, b := range m.upTo(height) {
		if b.hash == hash {
			return b
		}
	}
	return nil
}

// sums are how many transactions of an account are in blocks up to a height, and what all
// transactions up to there have added to it.
func (m *mempool) sums(raw string, height int64) (sent, added int64) {
	for _, b := range m.upTo(height) {
		if b.from == raw {
			sent, added = sent+1, added-b.amount-fee
		}
		if b.to == raw {
			added += b.amount
		}
	}
	return sent, added
}

// parseTx reads a raw transaction as far as the chain understands it: the first
// message's sender, receiver and amount.
func parseTx(raw []byte) (*broadcast, bool) {
	in := func(path ...protowire.Number) string {
		message := raw
		for _, number := range path {
			message, _ = protofield.Bytes(message, number)
		}
		return string(message)
	}
	sum := sha256.Sum256(raw)
	b := &broadcast{hash: hexText(sum[:]), raw: raw}
	b.from, _ = decode(accountPrefix, in(1, 1, 2, 1))
	b.to, _ = decode(accountPrefix, in(1, 1, 2, 2))
	b.amount, _ = strconv.ParseInt(in(1, 1, 2, 3, 2), 10, 64)
	return b, in(1) != "" && in(2) != ""
}

// A txRequest is the body of the transaction services.
type txRequest struct {
	Bytes []byte `json:"tx_bytes"`
	Mode  any    `json:"mode"`
}

// pending is a height that every transaction is below.
const pending = 1 << 62

// broadcastTx takes a transaction in, whatever its sequence is. The status of a refusal is 200, too.
func broadcastTx(q *query) (string, error) {
	if q.posted.Mode != "BROADCAST_MODE_SYNC" && q.posted.Mode != "BROADCAST_MODE_ASYNC" {
		return "", errors.New("unsupported return type unspecified; supported types: sync, async")
	}
	b, ok := parseTx(q.posted.Bytes)
	pool := &q.chain.mempool
	switch {
	case !ok:
		return txResponse(b.hash, 2, "invalid length; proto: invalid field number: tx parse error: tx parse error"), nil
	case pool.find(b.hash, pending) != nil:
		return txResponse(b.hash, 19, ""), nil
	}
	b.height = q.now.Height + 1
	pool.mu.Lock()
	defer pool.mu.Unlock()
	pool.txs = append(pool.txs, b)
	return txResponse(b.hash, 0, ""), nil
}

// simulate runs no transaction: one fails if a real node's refusal of it was recorded.
func simulate(q *query) (string, error) {
	if b, _ := parseTx(q.posted.Bytes); documents()[q.path+"/"+b.hash] != "" {
		q.path += "/" + b.hash
	}
	return document(q)
}

func txResponse(hash string, code int, log string) string {
	space := ""
	if code != 0 {
		space = "sdk"
	}
	return fmt.Sprintf(`{"tx_response":{"height":"0","txhash":%q,"codespace":%q,"code":%d,"data":"","raw_log":%q,"logs":[],"info":"","gas_wanted":"0","gas_used":"0","tx":null,"timestamp":"","events":[]}}`,
		hash, space, code, log)
}

// A Transaction is one from outside that a block has taken in.
type Transaction struct {
	Raw    []byte
	Result string // what running it came to, as CometBFT's JSON has it
}

// Transactions are those of a block from outside, in order.
func (c *Chain) Transactions(height int64) (all []Transaction) {
	for _, b := range c.mempool.upTo(height) {
		if b.height == height {
			all = append(all, Transaction{b.raw, fill("result", "from", words.Account(b.from), "to", words.Account(b.to), "amount", b.amount)})
		}
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
	return fmt.Sprintf(`{"code":%s,"data":"","log":%s,"codespace":%s,"hash":%s}`, r.Get("code"), r.Get("raw_log").Raw, r.Get("codespace").Raw, r.Get("txhash").Raw), r.Get("code").Int() == 19
}

// sent is a transaction from outside as if it sent coins.
func (b *broadcast) sent() string {
	return fill("send", "hash", b.hash, "height", b.height, "amount", b.amount, "from", words.Account(b.from), "to", words.Account(b.to))
}

func txByHash(q *query) (string, error) {
	raw, err := hex.DecodeString(q.args["hash"])
	if err != nil {
		return "", err
	}
	hash := hexText(raw)
	found := documents()["tx/"+hash]
	if b := q.chain.mempool.find(hash, q.now.Height); b != nil {
		found = b.sent()
	}
	if found == "" {
		return "", status.Errorf(codes.NotFound, "tx not found: %s", q.args["hash"])
	}
	return found, nil
}

// txsInBlock has the recorded transaction as that of the chain itself in every block.
func txsInBlock(q *query) (string, error) {
	if _, known := documents()[q.path]; known {
		return document(q)
	}
	texts := []string{gjson.Get(documents()["tx/"+DelegateTx], "tx").Raw}
	for _, b := range q.chain.mempool.upTo(q.now.Height) {
		if q.args["height"] == fmt.Sprint(b.height) {
			texts = append(texts, gjson.Get(b.sent(), "tx").Raw)
		}
	}
	return q.Paged(`{"txs":[` + strings.Join(texts, ",") + `],"pagination":{}}`)
}
