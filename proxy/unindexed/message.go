package unindexed

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
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
	asked := fields(request)
	if method == getTx {
		hash, _ := hex.DecodeString(asked.text(1)) // what is none has no transaction
		if tx := t.ByHash(hash); tx != nil {
			return message(nil, 1, tx.Bytes, 2, txResponse(tx))
		}
		return nil
	}
	all := t.Search(cmp.Or(asked.text(6), strings.Join(asked.texts[1], " AND ")))
	page := Page{Number: asked.number(4), Size: cmp.Or(asked.number(5), maxPage), Descending: asked.number(3) == descending}
	part, ok := page.Of(all)
	if !ok {
		return nil
	}
	var b []byte
	for _, tx := range part {
		b = message(b, 1, tx.Bytes)
	}
	for _, tx := range part {
		b = message(b, 2, txResponse(tx))
	}
	return message(b, 4, len(all))
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
	b := message(nil, 1, tx.Height, 2, fmt.Sprintf("%X", tx.Hash), 3, r.Codespace, 4, r.Code, 5, fmt.Sprintf("%X", r.Data), 6, r.Log, 8, r.Info,
		9, r.GasWanted, 10, r.GasUsed, 11, message(nil, 1, "/cosmos.tx.v1beta1.Tx", 2, tx.Bytes), 12, timestamp(tx))
	for _, event := range r.Events {
		one := message(nil, 1, event.Type)
		for _, a := range event.Attributes {
			one = message(one, 2, message(nil, 1, a.Key, 2, a.Value, 3, a.Index))
		}
		b = message(b, 13, one)
	}
	return b
}

// timestamp is the time of the block as an SDK writes it.
func timestamp(tx *events.Transaction) string { return tx.Time.UTC().Format(time.RFC3339) }

// message appends fields to a message, of pairs of numbers and values. Those that are zero are left
// out, but for messages that are empty.
func message(b []byte, pairs ...any) []byte {
	for pair := range slices.Chunk(pairs, 2) {
		number := protowire.Number(pair[0].(int)) //nolint:forcetypeassert // all are
		var n uint64
		switch value := pair[1].(type) {
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
		case string:
			if value != "" {
				b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), value)
			}
		case bool:
			n = protowire.EncodeBool(value)
		case int:
			n = uint64(value) //nolint:gosec // a count
		case int64:
			n = uint64(value) //nolint:gosec // as the format has it
		case uint64:
			n = value
		}
		if n > 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), n)
		}
	}
	return b
}

// An asked message has its fields by their numbers.
type asked struct {
	texts   map[protowire.Number][]string
	numbers map[protowire.Number]uint64
}

// fields reads a message, up to where it is none.
func fields(message []byte) asked {
	read := asked{map[protowire.Number][]string{}, map[protowire.Number]uint64{}}
	for f, ok := range protofield.All(message) {
		switch {
		case !ok:
		case f.Type == protowire.BytesType:
			read.texts[f.Number] = append(read.texts[f.Number], string(f.Bytes()))
		case f.Type == protowire.VarintType:
			read.numbers[f.Number] = f.Varint()
		}
	}
	return read
}

// text is the last of a field.
func (f asked) text(number protowire.Number) string {
	all := f.texts[number]
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

func (f asked) number(number protowire.Number) int64 { return int64(f.numbers[number]) } //nolint:gosec // as the format has it
