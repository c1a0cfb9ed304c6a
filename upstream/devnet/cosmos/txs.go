package cosmos

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
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

// hashOf returns the hash of a raw transaction.
func hashOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hexText(sum[:])
}

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
			message = protofield.Bytes(message, number)
		}
		return string(message)
	}
	b := &broadcast{hash: hashOf(raw), raw: raw}
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

// AlreadyKnown is the code of a transaction that was broadcast before.
const AlreadyKnown = 19

// Broadcast adds a transaction and returns its hash. It does not check the sequence. The code is 0 if it was added.
func (c *Chain) Broadcast(height int64, raw []byte) (hash string, a Answer) {
	b, ok := parseTx(raw)
	pool := &c.mempool
	pool.mu.Lock()
	defer pool.mu.Unlock()
	switch {
	case !ok:
		return b.hash, Answer{Code: 2, Codespace: "sdk", Log: "invalid length; proto: invalid field number: tx parse error: tx parse error"}
	case slices.ContainsFunc(pool.txs, func(known *broadcast) bool { return known.hash == b.hash }):
		return b.hash, Answer{Code: AlreadyKnown, Codespace: "sdk"}
	}
	b.height = height + 1
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

// A Transaction is a transaction in a block.
type Transaction struct {
	Raw    []byte
	Result string // its result, as CometBFT's JSON
}

// NoEvents is the result of a transaction without events.
const NoEvents = `{"code":0,"data":null,"log":"","info":"","gas_wanted":"0","gas_used":"0","events":[],"codespace":""}`

// Transactions returns the transactions of a block in order: first its own, then the broadcast ones. hash is the block's.
func (c *Chain) Transactions(height int64, hash []byte) (all []Transaction) {
	if height >= opening {
		raw, _ := ownTx(height, hash)
		all = append(all, Transaction{raw, NoEvents})
	}
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

// recordedTx returns the body without its memo and the signing information of DelegateTx.
var recordedTx = sync.OnceValues(func() (body, auth []byte) {
	recorded := gjson.Get(documents()["tx/"+DelegateTx], "tx")
	coins := func(amount gjson.Result) []byte {
		return protofield.Append(nil, 1, amount.Get("denom").Str, 2, amount.Get("amount").Str)
	}
	for _, m := range recorded.Get("body.messages").Array() {
		message := protofield.Append(nil, 1, m.Get("delegator_address").Str, 2, m.Get("validator_address").Str, 3, coins(m.Get("amount")))
		body = protofield.Append(body, 1, protofield.Append(nil, 1, m.Get("@type").Str, 2, message))
	}
	signer, charge := recorded.Get("auth_info.signer_infos.0"), recorded.Get("auth_info.fee")
	public, _ := base64.StdEncoding.DecodeString(signer.Get("public_key.key").Str)
	key := protofield.Append(nil, 1, signer.Get("public_key.@type").Str, 2, protofield.Append(nil, 1, public))
	mode := protofield.Append(nil, 1, protofield.Append(nil, 1, 1)) // SIGN_MODE_DIRECT
	paid := protofield.Append(nil, 1, coins(charge.Get("amount.0")), 2, charge.Get("gas_limit").Int())
	return body, protofield.Append(nil, 1, protofield.Append(nil, 1, key, 2, mode), 2, paid)
})

// ownTx returns the transaction that each block since the opening has, and its JSON: DelegateTx with another memo and
// signature. hash is the block's hash.
func ownTx(height int64, hash []byte) (raw []byte, text string) {
	memo, signature := fmt.Sprintf("block %d", height), slices.Concat(hash, hash)
	body, auth := recordedTx()
	raw = protofield.Append(nil, 1, protofield.Append(slices.Clone(body), 2, memo), 2, auth, 3, signature)
	recorded := documents()["tx/"+DelegateTx]
	text = strings.NewReplacer(
		DelegateTx, hashOf(raw), `"height":"18"`, fmt.Sprintf(`"height":"%d"`, height), `"memo":"delegate"`, fmt.Sprintf(`"memo":%q`, memo),
		gjson.Get(recorded, "tx.signatures.0").Str, state.Base64(signature),
	).Replace(recorded)
	return raw, text
}

// blockHash returns the hash of a block.
func (q *query) blockHash(h int64) []byte {
	_, hash, _ := q.node.Block(h)
	return hash
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
	for h := q.now.Height; found == "" && h > max(opening-1, q.now.Height-256); h-- {
		if own, text := ownTx(h, q.blockHash(h)); hashOf(own) == hash {
			found = text
		}
	}
	if found == "" {
		return "", status.Errorf(codes.NotFound, "tx not found: %s", q.args["hash"])
	}
	return found, nil
}

// recordedSearch answers searches for transactions that were not broadcast.
var recordedSearch = documentRoute{
	Params: "query page limit order_by events pagination", Key: []string{"query", "page", "limit", "order_by"},
	Answer: `{"txs":[],"tx_responses":[],"pagination":null,"total":"0"}`,
}

// accountSearch matches a search for the transactions of an account.
var accountSearch = regexp.MustCompile(`^(message\.sender|coin_received\.receiver)\s*=\s*'(\w+)'$`)

// searchTxs finds the broadcast transactions of an account, the newest first.
func searchTxs(q *query) (string, error) {
	parts := accountSearch.FindStringSubmatch(q.args["query"])
	if parts == nil {
		return recordedSearch.serve(q)
	}
	var found, responses []string
	for _, b := range slices.Backward(q.chain.mempool.upTo(q.now.Height)) {
		who := map[string]string{"message.sender": b.from, "coin_received.receiver": b.to}[parts[1]]
		if who != "" && words.Account(who) == parts[2] {
			found, responses = append(found, gjson.Get(b.sent(), "tx").Raw), append(responses, gjson.Get(b.sent(), "tx_response").Raw)
		}
	}
	if found == nil {
		return recordedSearch.serve(q)
	}
	return fmt.Sprintf(`{"txs":[%s],"tx_responses":[%s],"pagination":null,"total":"%d"}`, strings.Join(found, ","), strings.Join(responses, ","), len(found)), nil
}

// txsInBlock renders the transactions of a block.
func txsInBlock(q *query) (string, error) {
	if _, known := documents()[q.path]; known {
		return document(q)
	}
	height, _ := strconv.ParseInt(q.args["height"], 10, 64) // validated as an integer
	if height < 1 || height > q.now.Height {
		return "", fmt.Errorf("codespace sdk code 26: invalid height: requested height %d but height must not be less than 1 or greater than the current height %d", height, q.now.Height)
	}
	var texts []string
	if height >= opening {
		_, own := ownTx(height, q.blockHash(height))
		texts = append(texts, gjson.Get(own, "tx").Raw)
	}
	for _, b := range q.chain.mempool.upTo(q.now.Height) {
		if b.height == height {
			texts = append(texts, gjson.Get(b.sent(), "tx").Raw)
		}
	}
	block, err := q.blockJSON(height)
	if err != nil {
		return "", err
	}
	id, body := gjson.Get(block, "block_id").Raw, gjson.Get(block, "block").Raw
	return q.Query.Paged(`{"txs":[` + strings.Join(texts, ",") + `],"block_id":` + id + `,"block":` + body + `,"pagination":{}}`)
}

// blockJSON renders a block.
func (q *query) blockJSON(h int64) (string, error) {
	at, hash, _ := q.node.Block(h)
	var txs []string
	for _, t := range q.chain.Transactions(h, hash) {
		txs = append(txs, `"`+state.Base64(t.Raw)+`"`)
	}
	_, before, appHash := q.node.Block(h - 1)
	return fill("block", "chain", q.Query.Chain.ID, "txs", strings.Join(txs, ","), "hash", state.Base64(hash), "before", state.Base64(before), "app", state.Base64(appHash), "time", at.UTC().Format(time.RFC3339Nano), "height", h, "below", h-1), nil
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
