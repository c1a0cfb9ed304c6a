package devnet

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A Refusal is how an endpoint refuses an eth_getLogs that asks for too much.
// Those of real providers have little in common.
type Refusal string

// The ways to refuse.
const (
	RefuseResults Refusal = "-32005" // code -32005, whatever the reason is
	RefuseParams  Refusal = "-32602" // as if the request were malformed
	RefuseServer  Refusal = "-32000" // as any failure
	Refuse413     Refusal = "413"    // HTTP 413, not even JSON
	Refuse400     Refusal = "400"    // HTTP 400 with a JSON-RPC error
)

// refusals are what the ways say, with the number of blocks that is allowed.
var refusals = map[Refusal]evmError{
	RefuseResults: {rpcError: rpcError{Code: -32005, Message: "query returned more than 10000 results"}},
	RefuseParams:  {rpcError: rpcError{Code: -32602, Message: "block range too large, max is {blocks} blocks"}},
	RefuseServer:  {rpcError: rpcError{Code: -32000, Message: "exceed maximum block range: {blocks}"}},
	Refuse413:     {rpcError: rpcError{Message: "Request Entity Too Large"}, status: http.StatusRequestEntityTooLarge, plain: true},
	Refuse400:     {rpcError: rpcError{Code: -32600, Message: "You can make eth_getLogs requests with up to a {blocks} block range."}, status: http.StatusBadRequest},
}

func (l limits) refuse() *evmError {
	e := refusals[l.refusal]
	e.Message = strings.ReplaceAll(e.Message, "{blocks}", strconv.FormatInt(l.blocks, 10))
	return &e
}

func (r Refusal) validate() error {
	if _, known := refusals[r]; !known {
		return fmt.Errorf("devnet: refusal %q, want -32005, -32602, -32000, 413 or 400", r)
	}
	return nil
}

// A filter is what an eth_getLogs asks for.
type filter struct {
	from, to  int64
	contracts []address // any of these; none: all
	topics    [][]word  // for each position any of these; none: all
}

// maxTopics is how many topics a log can have.
const maxTopics = 4

func (f filter) matches(g evmLog) bool {
	if len(f.contracts) > 0 && !slices.Contains(f.contracts, g.contract) || len(f.topics) > len(g.topics) {
		return false
	}
	for i, any := range f.topics {
		if len(any) > 0 && !slices.Contains(any, g.topics[i]) {
			return false
		}
	}
	return true
}

func (e *EVM) ethGetLogs(params []json.RawMessage) (json.RawMessage, *evmError) {
	f, failure := e.filter(params[0])
	if failure != nil {
		return nil, failure
	}
	limits := *e.limits.Load()
	if f.to-f.from >= limits.blocks {
		return nil, limits.refuse()
	}
	out, found, hash, hashed := []byte("["), 0, word{}, int64(-1)
	for log := range e.ledger.logs(f.from, min(f.to, e.Height())) {
		if !f.matches(log) {
			continue
		}
		if found++; limits.results > 0 && found > limits.results {
			return nil, limits.refuse()
		}
		if found > 1 {
			out = append(out, ',')
		}
		if log.block != hashed {
			hash, hashed = e.hash(log.block), log.block
		}
		out = log.appendTo(out, e.ledger, hash)
	}
	return append(out, ']'), nil
}

// filter reads the parameter of eth_getLogs.
func (e *EVM) filter(param json.RawMessage) (f filter, failure *evmError) {
	var given struct {
		Address   json.RawMessage
		Topics    []json.RawMessage
		FromBlock json.RawMessage
		ToBlock   json.RawMessage
		BlockHash *string
	}
	if err := json.Unmarshal(param, &given); err != nil {
		return f, badParams("invalid argument 0: %v", err)
	}
	if f.contracts, failure = parseContracts(given.Address); failure != nil {
		return f, failure
	}
	if f.topics, failure = parseTopics(given.Topics); failure != nil {
		return f, failure
	}
	if given.BlockHash == nil {
		return e.between(f, given.FromBlock, given.ToBlock)
	}
	if given.FromBlock != nil || given.ToBlock != nil {
		return f, badParams("cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other")
	}
	return e.within(f, *given.BlockHash)
}

// between limits a filter to a range, which may lie past the head.
func (e *EVM) between(f filter, from, to json.RawMessage) (_ filter, failure *evmError) {
	if f.from, failure = e.block(0, from); failure != nil {
		return f, failure
	}
	if f.to, failure = e.block(0, to); failure != nil {
		return f, failure
	}
	if f.from > f.to && from != nil && to != nil {
		return f, badParams("invalid block range params")
	}
	return f, nil
}

// within limits a filter to the block with a hash.
func (e *EVM) within(f filter, hash string) (filter, *evmError) {
	w, ok := parseWord(hash)
	if !ok {
		return f, badParams("invalid argument 0: want a block hash")
	}
	f.from = int64(binary.BigEndian.Uint64(w[24:]) ^ e.ledger.mask)
	if f.from < 0 || f.from > e.Height() || e.hash(f.from) != w {
		return f, evmFailure(-32000, "unknown block")
	}
	f.to = f.from
	return f, nil
}

// parseContracts reads one address or a list.
func parseContracts(param json.RawMessage) ([]address, *evmError) {
	texts, ok := oneOrMany(param)
	contracts := make([]address, len(texts))
	for i, text := range texts {
		if text == nil {
			return nil, badParams("invalid argument 0: null is no address")
		}
		if contracts[i], ok = parseAddress(*text); !ok {
			return nil, badParams("invalid argument 0: invalid address at index %d", i)
		}
	}
	if !ok {
		return nil, badParams("invalid argument 0: invalid addresses in query")
	}
	return contracts, nil
}

// parseTopics reads, for each position, one topic, a list, or null for any.
func parseTopics(params []json.RawMessage) ([][]word, *evmError) {
	if len(params) > maxTopics {
		return nil, badParams("exceed max topics")
	}
	topics := make([][]word, len(params))
	for i, param := range params {
		texts, ok := oneOrMany(param)
		if !ok {
			return nil, badParams("invalid argument 0: invalid topic(s)")
		}
		for _, text := range texts {
			if text == nil { // or any at all
				topics[i] = nil
				break
			}
			topic, ok := parseWord(*text)
			if !ok {
				return nil, badParams("invalid argument 0: invalid topic %q", *text)
			}
			topics[i] = append(topics[i], topic)
		}
	}
	return topics, nil
}

// oneOrMany reads a text or a list of texts and nulls. Absent and null are none.
func oneOrMany(param json.RawMessage) (texts []*string, ok bool) {
	if param == nil || json.Unmarshal(param, &texts) == nil {
		return texts, true
	}
	var one string
	if json.Unmarshal(param, &one) != nil {
		return nil, false
	}
	return []*string{&one}, true
}

func parseWord(text string) (word, bool) {
	raw, err := parseHex(text)
	if err != nil || len(raw) != len(word{}) {
		return word{}, false
	}
	return word(raw), true
}
