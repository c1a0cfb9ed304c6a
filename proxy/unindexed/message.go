package unindexed

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// The methods of gRPC that find transactions.
const (
	getTx       = "/cosmos.tx.v1beta1.Service/GetTx"
	getTxsEvent = "/cosmos.tx.v1beta1.Service/GetTxsEvent"
)

// Finds says whether a method of gRPC finds transactions.
func Finds(method string) bool { return method == getTx || method == getTxsEvent }

// Lacks says whether a response of such a method has no transaction.
func Lacks(response []byte) bool {
	number, _, _ := protowire.ConsumeTag(response)
	return number != 1
}

// Response is the response of such a method to a request; nil where it is for no such transaction.
func (t *Txs) Response(method string, request []byte) []byte {
	var first []string // the hash, or the events that are searched for
	var query string
	var page Page
	for f := range protofield.All(request) {
		switch f.Number {
		case 1:
			first = append(first, string(f.Bytes()))
		case 3:
			page.Descending = f.Varint() == descending
		case 4:
			page.Number = int64(f.Varint()) //nolint:gosec // as the format has it
		case 5:
			page.Size = int64(f.Varint()) //nolint:gosec // the same
		case 6:
			query = string(f.Bytes())
		}
	}
	if method == getTx {
		hash, _ := hex.DecodeString(strings.Join(first[max(0, len(first)-1):], "")) // what is none has no transaction
		if tx := t.ByHash(hash); tx != nil {
			return protofield.Append(nil, 1, tx.Bytes, 2, txResponse(tx))
		}
		return nil
	}
	page.Size = cmp.Or(page.Size, maxPage)
	all := t.Search(cmp.Or(query, strings.Join(first, " AND ")))
	part, ok := page.Of(all)
	if !ok {
		return nil
	}
	var b []byte
	for _, tx := range part {
		b = protofield.Append(b, 1, tx.Bytes)
	}
	for _, tx := range part {
		b = protofield.Append(b, 2, txResponse(tx))
	}
	return protofield.Append(b, 4, len(all))
}

// descending is the order of that name.
const descending = 2

// A result is what running a transaction came to.
type result struct {
	Code      uint64 `json:"code"`
	Data      []byte `json:"data"`
	Log       string `json:"log"`
	Info      string `json:"info"`
	GasWanted int64  `json:"gas_wanted,string"`
	GasUsed   int64  `json:"gas_used,string"`
	Codespace string `json:"codespace"`
	Events    []struct {
		Type       string `json:"type"`
		Attributes []struct {
			Key   string `json:"key"`
			Value string `json:"value"`
			Index bool   `json:"index"`
		} `json:"attributes"`
	} `json:"events"`
}

// txResponse is a TxResponse.
func txResponse(tx *events.Transaction) []byte {
	var r result
	_ = json.Unmarshal(tx.Result, &r) // what is missing is zero
	b := protofield.Append(nil, 1, tx.Height, 2, fmt.Sprintf("%X", tx.Hash), 3, r.Codespace, 4, r.Code, 5, fmt.Sprintf("%X", r.Data), 6, r.Log, 8, r.Info,
		9, r.GasWanted, 10, r.GasUsed, 11, protofield.Append(nil, 1, "/cosmos.tx.v1beta1.Tx", 2, tx.Bytes), 12, timestamp(tx))
	for _, event := range r.Events {
		one := protofield.Append(nil, 1, event.Type)
		for _, a := range event.Attributes {
			one = protofield.Append(one, 2, protofield.Append(nil, 1, a.Key, 2, a.Value, 3, a.Index))
		}
		b = protofield.Append(b, 13, one)
	}
	return b
}

// timestamp is the time of the block as an SDK writes it.
func timestamp(tx *events.Transaction) string { return tx.Time.UTC().Format(time.RFC3339) }
