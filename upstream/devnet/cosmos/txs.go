package cosmos

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// DelegateTx is a transaction that is on every chain, in block 18.
const DelegateTx = "EBD29CADFCEE5D7D8E31C5EF2736C1612CECF15ADC88A400A8F5491BE8E6849A"

func hexText(raw []byte) string { return strings.ToUpper(hex.EncodeToString(raw)) }

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
	if found == "" || q.now.Unindexed {
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
	return state.ListTexts(&q.Query, "txs", texts)
}
