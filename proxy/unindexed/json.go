package unindexed

import (
	"cmp"
	"encoding/base64"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/events"
)

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
