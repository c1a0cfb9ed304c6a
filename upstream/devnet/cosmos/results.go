package cosmos

import (
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// A Transaction is one from outside that a block has taken in.
type Transaction struct {
	Raw    []byte
	Result string // what running it came to, as CometBFT's JSON has it
}

// Transactions are those of a block from outside, in order.
func (c *Chain) Transactions(height int64) (all []Transaction) {
	c.mempool.each(height, func(b *broadcast) {
		if b.height == height {
			all = append(all, Transaction{b.raw, b.result()})
		}
	})
	return all
}

// result tells of a transaction that sent coins.
func (b *broadcast) result() string {
	from := words.Account(b.from)
	return fmt.Sprintf(`{"code":0,"data":null,"log":"","info":"","gas_wanted":"200000","gas_used":"77182","events":[%s,%s],"codespace":""}`,
		happening("message", "action", "/cosmos.bank.v1beta1.MsgSend", "sender", from, "module", "bank", "msg_index", "0"),
		happening("transfer", "recipient", words.Account(b.to), "sender", from, "amount", fmt.Sprint(b.amount, "stake"), "msg_index", "0"))
}

// happening is an event of the application, of its type and of names and values in turn.
func happening(kind string, attributes ...string) string {
	text, separator := fmt.Sprintf(`{"type":%q,"attributes":[`, kind), ""
	for i := 0; i < len(attributes); i += 2 {
		text += fmt.Sprintf(`%s{"key":%q,"value":%q,"index":true}`, separator, attributes[i], attributes[i+1])
		separator = ","
	}
	return text + "]}"
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
