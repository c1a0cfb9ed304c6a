package devnet

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
)

// A Refusal is how an endpoint refuses an eth_getLogs that asks for too much.
// Those of real providers have little in common.
type Refusal string

// The ways that have a name. The others are -32000, the code of any failure, and
// the statuses 413 and 400 of HTTP.
const (
	RefuseResults Refusal = "-32005" // code -32005, whatever the reason is
	RefuseParams  Refusal = "-32602" // as if the request were malformed
)

// refusals are the errors by way. {blocks} is the number of blocks that is allowed.
var refusals = map[Refusal]rpcError{
	RefuseResults: {Code: -32005, Message: "query returned more than 10000 results"},
	RefuseParams:  {Code: -32602, Message: "block range too large, max is {blocks} blocks"},
	"-32000":      {Code: -32000, Message: "exceed maximum block range: {blocks}"},
	"413":         {Message: "Request Entity Too Large", status: http.StatusRequestEntityTooLarge, plain: true},
	"400":         {Code: -32600, Message: "You can make eth_getLogs requests with up to a {blocks} block range.", status: http.StatusBadRequest},
}

// A filter is what an eth_getLogs asks for.
type filter struct {
	Address            oneOrMany[address] // any of these; none: all
	Topics             []oneOrMany[*word] // for each position any of these; none or nil: all
	FromBlock, ToBlock string
	BlockHash          *word
}

// A oneOrMany is one value or a list. Absent and null are none.
type oneOrMany[T any] []T

// UnmarshalJSON reads either.
func (m *oneOrMany[T]) UnmarshalJSON(data []byte) error {
	if data[0] != '[' && string(data) != "null" {
		data = append(append([]byte("["), data...), ']')
	}
	return json.Unmarshal(data, (*[]T)(m))
}

func (f filter) matches(g evmLog) bool {
	if len(f.Address) > 0 && !slices.Contains(f.Address, g.contract) || len(f.Topics) > len(g.topics) {
		return false
	}
	for i, any := range f.Topics {
		if len(any) > 0 && !slices.ContainsFunc(any, func(w *word) bool { return w == nil || *w == g.topics[i] }) {
			return false
		}
	}
	return true
}

func (e *EVM) ethGetLogs(params json.RawMessage) (json.RawMessage, *rpcError) {
	var f filter
	failure := arguments(params, &f)
	if failure != nil {
		return nil, failure
	}
	from, to, failure := e.span(f)
	limits := *e.limits.Load()
	switch {
	case failure != nil:
		return nil, failure
	case f.BlockHash == nil && e.target.currentFault().DropLogs:
		return json.RawMessage("[]"), nil
	case to-from >= limits.blocks:
		return nil, &limits.refusal
	}
	out, hash, hashed := []byte("["), word{}, int64(-1)
	for log := range e.ledger.logs(from, min(to, e.Height())) {
		if !f.matches(log) {
			continue
		}
		if log.block != hashed {
			hash, hashed = e.hash(log.block), log.block
		}
		out = append(log.appendTo(out, e.ledger, hash), ',')
	}
	return append(bytes.TrimSuffix(out, []byte(",")), ']'), nil
}

// span is from which to which block a filter looks: that with a hash, or a range,
// which may lie past the head.
func (e *EVM) span(f filter) (from, to int64, failure *rpcError) {
	if f.BlockHash != nil {
		from = int64(binary.BigEndian.Uint64(f.BlockHash[24:]) ^ e.ledger.mask)
		if from < 0 || from > e.Height() || e.hash(from) != *f.BlockHash {
			failure = evmFailure(-32000, "unknown block")
		}
		return from, from, failure
	}
	if from, failure = e.block(f.FromBlock); failure == nil {
		to, failure = e.block(f.ToBlock)
	}
	if failure == nil && from > to && f.FromBlock != "" && f.ToBlock != "" {
		failure = evmFailure(-32602, "invalid block range params")
	}
	return from, to, failure
}
