package cosmos

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// DelegateTx is a transaction that is on every chain, in block 18.
const DelegateTx = "EBD29CADFCEE5D7D8E31C5EF2736C1612CECF15ADC88A400A8F5491BE8E6849A"

// txHash names the transaction that the chain makes itself in a block. The height can be
// read from it, but for the first.
func (q *query) txHash(height int64) string {
	if height == opening {
		return DelegateTx
	}
	d := state.Digest(q.Seed, "tx", height)
	return hexText(binary.BigEndian.AppendUint64(d[:24], uint64(height)))
}

func hexText(raw []byte) string { return strings.ToUpper(hex.EncodeToString(raw)) }

// delegateTx is that transaction: a delegation.
func (q *query) delegateTx(height int64) string {
	return fill("delegate", "hash", q.txHash(height), "height", height, "sequence", height-opening)
}

// sendTx is a transaction from outside, as if it sent coins.
func sendTx(b *broadcast) string {
	return fill("send", "hash", b.hash, "height", b.height, "amount", b.amount, "from", words.Account(b.from), "to", words.Account(b.to), "sequence", b.sequence)
}

// tx is a transaction by its hash; "" for none.
func (q *query) tx(raw []byte, tip int64) string {
	hash, height := hexText(raw), int64(opening)
	if b := q.chain.mempool.find(hash, tip); b != nil {
		return sendTx(b)
	}
	if hash != DelegateTx && len(raw) == sha256.Size {
		height = int64(binary.BigEndian.Uint64(raw[24:]))
	}
	if opening <= height && height <= tip && q.txHash(height) == hash {
		return q.delegateTx(height)
	}
	return documents()["tx/"+hash]
}

func txByHash(q *query) (string, error) {
	raw, err := hex.DecodeString(q.args["hash"])
	if err != nil {
		return "", state.Fail(state.Unknown, "%v", err)
	}
	found := q.tx(raw, q.now.Height)
	if found == "" || q.now.Unindexed {
		return "", state.Fail(state.NotFound, "tx not found: %s", q.args["hash"])
	}
	return found, nil
}

func txsInBlock(q *query) (string, error) {
	height, err := strconv.ParseInt(q.args["height"], 10, 64)
	tip := q.now.Height
	if err != nil || height < 1 || height > tip {
		return "", state.Fail(state.Unknown, "codespace sdk code 26: invalid height: requested height %d but height must not be less than 1 or greater than the current height %d", height, tip)
	}
	var txs []string
	if height >= opening {
		txs = append(txs, q.delegateTx(height))
	}
	for _, b := range q.chain.mempool.in(height) {
		txs = append(txs, sendTx(b))
	}
	page, err := state.ListTexts(&q.Query, "txs", each(txs, "tx"))
	block, _ := q.blockJSON(height)
	return fmt.Sprintf(`{"txs":%s,"block_id":%s,"block":%s,"pagination":{"next_key":null,"total":"%d"}}`,
		gjson.Get(page, "txs").Raw, gjson.Get(block, "block_id").Raw, gjson.Get(block, "block").Raw, len(txs)), err
}

// each is one member of every document.
func each(documents []string, member string) []string {
	all := make([]string, len(documents))
	for i, document := range documents {
		all[i] = gjson.Get(document, member).Raw
	}
	return all
}

// The searches that the chain understands.
var (
	searchHeight = regexp.MustCompile(`^tx\.height\s*=\s*(\d+)$`)
	searchAny    = regexp.MustCompile(`^[a-z_.]+\s*(=|<|>|<=|>=|CONTAINS|EXISTS)`)
)

// searchTxs finds the transactions of the chain itself, by height or sender. Pages are
// numbered; pagination means nothing.
func searchTxs(q *query) (string, error) {
	words := q.args["query"]
	switch {
	case words == "":
		return "", state.Fail(state.Internal, "query cannot be empty")
	case !searchAny.MatchString(words):
		return "", state.Fail(state.Internal, "failed to search for txs: offset 4: got tag, wanted <= operator, >= operator, < operator, > operator, = operator, CONTAINS operator or EXISTS operator")
	}
	heights := q.found(words)
	if q.args["order_by"] == "ORDER_BY_DESC" {
		slices.Reverse(heights)
	}
	limit, _ := strconv.Atoi(q.args["limit"])
	number, _ := strconv.Atoi(q.args["page"])
	pages := slices.Collect(slices.Chunk(heights, cmp.Or(limit, 100)))
	if number = max(1, number); number > max(1, len(pages)) {
		return "", state.Fail(state.Internal, "failed to search for txs: page should be within [1, %d] range, given %d", max(1, len(pages)), number)
	}
	var txs []string
	for _, height := range slices.Concat(pages[number-1 : min(number, len(pages))]...) {
		txs = append(txs, q.delegateTx(height))
	}
	return fmt.Sprintf(`{"txs":[%s],"tx_responses":[%s],"pagination":null,"total":"%d"}`,
		strings.Join(each(txs, "tx"), ","), strings.Join(each(txs, "tx_response"), ","), len(heights)), nil
}

// found are the blocks whose own transaction a search finds, of the latest thousand.
func (q *query) found(words string) (heights []int64) {
	m := searchHeight.FindStringSubmatch(words)
	for h := max(opening, q.now.Height-1000); h <= q.now.Height; h++ {
		if !q.now.Unindexed && (m != nil && m[1] == fmt.Sprint(h) || strings.Contains(words, WideDelegator)) {
			heights = append(heights, h)
		}
	}
	return heights
}
