package cosmos

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// DelegateTx is a transaction in block 18 of every chain.
const DelegateTx = "EBD29CADFCEE5D7D8E31C5EF2736C1612CECF15ADC88A400A8F5491BE8E6849A"

func hexText(raw []byte) string { return strings.ToUpper(hex.EncodeToString(raw)) }

// A mempool holds the broadcast transactions. The next block includes all of them.
type mempool struct {
	mu  sync.Mutex
	txs []*broadcast
}

// A broadcast is a transaction from a client: one that sends coins, or an unknown one, which only counts.
type broadcast struct {
	hash     string
	from, to string // raw addresses; "" if unknown
	amount   int64
	height   int64 // height of the block that includes it
	raw      []byte
}

// upTo returns the transactions in blocks up to a height.
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

// find returns a transaction by its hash if it is in a block up to a height, or nil.
func (m *mempool) find(hash string, height int64) *broadcast {
	for _, b := range m.upTo(height) {
		if b.hash == hash {
			return b
		}
	}
	return nil
}

// sums returns how many transactions of an account are in blocks up to a height, and how much all transactions up to
// there have added to it.
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

// parseTx reads sender, receiver and amount of the first message of a raw transaction.
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

// pending is above every height.
const pending = 1 << 62

// AlreadyKnown is the code of a transaction that was broadcast before.
const AlreadyKnown = 19

// Broadcast adds a transaction and returns its hash. It does not check the sequence. The code is 0 if it was added.
func (c *Chain) Broadcast(height int64, raw []byte) (hash string, a Answer) {
	b, ok := parseTx(raw)
	pool := &c.mempool
	switch {
	case !ok:
		return b.hash, Answer{Code: 2, Codespace: "sdk", Log: "invalid length; proto: invalid field number: tx parse error: tx parse error"}
	case pool.find(b.hash, pending) != nil:
		return b.hash, Answer{Code: AlreadyKnown, Codespace: "sdk"}
	}
	b.height = height + 1
	pool.mu.Lock()
	defer pool.mu.Unlock()
	pool.txs = append(pool.txs, b)
	return b.hash, Answer{}
}

// broadcastTx broadcasts a transaction. A refusal also has status 200.
func broadcastTx(q *query) (string, error) {
	if q.posted.Mode != "BROADCAST_MODE_SYNC" && q.posted.Mode != "BROADCAST_MODE_ASYNC" {
		return "", errors.New("unsupported return type unspecified; supported types: sync, async")
	}
	hash, a := q.chain.Broadcast(q.now.Height, q.posted.Bytes)
	return fmt.Sprintf(`{"tx_response":{"height":"0","txhash":%q,"codespace":%q,"code":%d,"data":"","raw_log":%q,"logs":[],"info":"","gas_wanted":"0","gas_used":"0","tx":null,"timestamp":"","events":[]}}`,
		hash, a.Codespace, a.Code, a.Log), nil
}

// simulate does not run the transaction. It fails for transactions that a real node was recorded to refuse.
func simulate(q *query) (string, error) {
	if b, _ := parseTx(q.posted.Bytes); documents()[q.path+"/"+b.hash] != "" {
		q.path += "/" + b.hash
	}
	return document(q)
}

// A Transaction is a broadcast transaction in a block.
type Transaction struct {
	Raw    []byte
	Result string // its result, as CometBFT's JSON
}

// Transactions returns the broadcast transactions of a block, in order.
func (c *Chain) Transactions(height int64) (all []Transaction) {
	for _, b := range c.mempool.upTo(height) {
		if b.height == height {
			all = append(all, Transaction{b.raw, fill("result", "from", words.Account(b.from), "to", words.Account(b.to), "amount", b.amount)})
		}
	}
	return all
}

// sent renders a broadcast transaction as one that sends coins.
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

// txsInBlock renders the recorded transaction as the chain's own transaction of every block.
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
	return q.Query.Paged(`{"txs":[` + strings.Join(texts, ",") + `],"pagination":{}}`)
}

// blockJSON renders a block.
func (q *query) blockJSON(h int64) (string, error) {
	txs := ""
	if h >= opening {
		d := state.Digest(q.Query.Chain.Seed, "bytes", h)
		txs = `"` + state.Base64(d[:]) + `"`
	}
	at, hash, _ := q.node.Block(h)
	_, before, appHash := q.node.Block(h - 1)
	return fill("block", "chain", q.Query.Chain.ID, "txs", txs, "hash", state.Base64(hash), "before", state.Base64(before), "app", state.Base64(appHash), "time", at.UTC().Format(time.RFC3339Nano), "height", h, "below", h-1), nil
}

// latest returns a handler that serves the newest height of CometBFT plus ahead. The state may be at a lower height.
func latest(ahead int64, serve func(*query, int64) (string, error)) handler {
	return func(q *query) (string, error) { return serve(q, q.now.Stored+ahead) }
}

// atHeight returns a handler that serves the height in the path. It ignores the height in the request's header.
func atHeight(serve func(*query, int64) (string, error)) handler {
	return func(q *query) (string, error) {
		height, _ := strconv.ParseInt(q.args["height"], 10, 64) // validated as an integer
		switch {
		case height > q.now.Stored:
			return "", status.Error(codes.InvalidArgument, "requested block height is bigger then the chain length")
		case height <= 0:
			return "", fmt.Errorf("height must be greater than 0, but got %d", height)
		}
		return serve(q, height)
	}
}

// validatorSet returns the recorded validator set with another height.
func validatorSet(q *query, height int64) (string, error) {
	return q.Query.Paged(fill(tendermint+"/validatorsets/latest", "height", height))
}

func historicalInfo(q *query) (string, error) {
	height, _ := strconv.ParseInt(q.args["height"], 10, 64) // validated as an integer
	if height <= 0 || height > q.Query.Height {
		return "", status.Errorf(codes.NotFound, "historical info for height %d not found", height)
	}
	return fill("historical_info", "chain", q.Query.Chain.ID, "height", height), nil
}
