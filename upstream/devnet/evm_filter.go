package devnet

import (
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

// A filter is what an eth_getLogs asks for, as it is given.
type filter struct {
	Address            oneOrMany[address] // any of these; none: all
	Topics             []oneOrMany[*word] // for each position any of these; none or nil: all
	FromBlock, ToBlock json.RawMessage
	BlockHash          *word
}

// maxTopics is how many topics a log can have.
const maxTopics = 4

// A oneOrMany is one value or a list. Absent and null are none.
type oneOrMany[T any] []T

// UnmarshalJSON reads either.
func (m *oneOrMany[T]) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case 'n': // null
		return nil
	case '[':
		return json.Unmarshal(data, (*[]T)(m))
	default:
		*m = make([]T, 1)
		return json.Unmarshal(data, &(*m)[0])
	}
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

func (e *EVM) ethGetLogs(params []json.RawMessage) (json.RawMessage, *rpcError) {
	var f filter
	if err := json.Unmarshal(params[0], &f); err != nil {
		return nil, badParams("invalid argument 0: %v", err)
	}
	from, to, failure := e.span(f)
	if failure != nil {
		return nil, failure
	}
	if f.BlockHash == nil && e.target.currentFault().DropLogs {
		return encode([]string{}), nil
	}
	limits := *e.limits.Load()
	if to-from >= limits.blocks {
		return nil, &limits.refusal
	}
	out, hash, hashed := []byte("["), word{}, int64(-1)
	for log := range e.ledger.logs(from, min(to, e.Height())) {
		if !f.matches(log) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		if log.block != hashed {
			hash, hashed = e.hash(log.block), log.block
		}
		out = log.appendTo(out, e.ledger, hash)
	}
	return append(out, ']'), nil
}

// span is from which to which block a filter looks: that with a hash, or a range,
// which may lie past the head.
func (e *EVM) span(f filter) (from, to int64, failure *rpcError) {
	if len(f.Topics) > maxTopics {
		return 0, 0, badParams("exceed max topics")
	}
	if f.BlockHash != nil {
		from = int64(binary.BigEndian.Uint64(f.BlockHash[24:]) ^ e.ledger.mask)
		switch {
		case f.FromBlock != nil || f.ToBlock != nil:
			failure = badParams("cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other")
		case from < 0 || from > e.Height() || e.hash(from) != *f.BlockHash:
			failure = evmFailure(-32000, "unknown block")
		}
		return from, from, failure
	}
	if from, failure = e.block(0, f.FromBlock); failure == nil {
		to, failure = e.block(0, f.ToBlock)
	}
	if failure == nil && from > to && f.FromBlock != nil && f.ToBlock != nil {
		failure = badParams("invalid block range params")
	}
	return from, to, failure
}
