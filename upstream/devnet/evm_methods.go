package devnet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func evmFailure(code int, format string, arguments ...any) *rpcError {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, arguments...)}
}

// arguments reads a list of parameters, of which some may be left out.
func arguments(params json.RawMessage, into ...any) *rpcError {
	if err := json.Unmarshal(params, &into); params != nil && err != nil {
		return evmFailure(-32602, "invalid arguments: %v", err)
	}
	return nil
}

// evmMethods are what can be called.
var evmMethods = map[string]func(e *EVM, params json.RawMessage) (json.RawMessage, *rpcError){
	"eth_chainId":          func(e *EVM, _ json.RawMessage) (json.RawMessage, *rpcError) { return quantity(int64(e.chainID)), nil }, //nolint:gosec // it is small
	"eth_blockNumber":      func(e *EVM, _ json.RawMessage) (json.RawMessage, *rpcError) { return quantity(e.Height()), nil },
	"eth_getBlockByNumber": (*EVM).ethGetBlockByNumber,
	"eth_getLogs":          (*EVM).ethGetLogs,
	"eth_getCode":          (*EVM).ethGetCode,
	"eth_call":             (*EVM).ethCall,
}

func quantity(n int64) json.RawMessage { return fmt.Appendf(nil, `"0x%x"`, n) }

// call answers a call of one of the methods.
func (e *EVM) call(r rpcRequest) (json.RawMessage, *rpcError) {
	method, known := evmMethods[r.Method]
	if !known {
		return nil, evmFailure(-32601, "the method %s does not exist/is not available", r.Method)
	}
	e.calls.count(r.Method)
	return method(e, r.Params)
}

// ethGetBlockByNumber leaves out what no client of the simulated chain reads.
func (e *EVM) ethGetBlockByNumber(params json.RawMessage) (json.RawMessage, *rpcError) {
	var tag string
	if failure := arguments(params, &tag, new(bool)); failure != nil {
		return nil, failure
	}
	block, failure := e.block(tag)
	if failure != nil {
		return nil, failure
	}
	if block > e.Height() {
		return json.RawMessage("null"), nil
	}
	parent := word{}
	if block > 0 {
		parent = e.hash(block - 1)
	}
	transactions, bloom := []string{}, [256]byte{}
	for log := range e.ledger.logs(block, block) {
		if log.transaction == int64(len(transactions)) { // else another log of the same
			transactions = append(transactions, e.ledger.transactionHash(block, log.transaction).String())
		}
		log.bloom(&bloom)
	}
	return fmt.Appendf(nil, `{"number":"0x%x","hash":%q,"parentHash":%q,"timestamp":"0x%x","logsBloom":"0x%x","transactions":%s}`,
		block, e.hash(block), parent, e.ledger.time(block).Unix(), bloom[:], encode(transactions)), nil
}

// hash is the hash of a block, another one for each time that the chain was set back to
// below it. The number can be read from it.
func (e *EVM) hash(block int64) word {
	what := "block"
	if n := e.chain.forksBelow(block - e.ledger.start() + e.chain.first); n > 0 {
		what += strconv.FormatInt(n, 10)
	}
	if e.target.currentFault().WrongHashes {
		what += "wrong"
	}
	w := e.ledger.hash(what, block)
	binary.BigEndian.PutUint64(w[24:], uint64(block)^e.ledger.mask)
	return w
}

// block is the number that a parameter gives: the head by default. Blocks are final at once.
func (e *EVM) block(tag string) (int64, *rpcError) {
	if tag == "" || tag == "latest" {
		return e.Height(), nil
	}
	digits, prefixed := strings.CutPrefix(tag, "0x")
	n, err := strconv.ParseInt(digits, 16, 64)
	if err != nil || !prefixed || n < 0 {
		return 0, evmFailure(-32602, "invalid block number %q", tag)
	}
	return n, nil
}

// state is the block to read a state at. Unlike a range it must exist.
func (e *EVM) state(tag string) (int64, *rpcError) {
	block, failure := e.block(tag)
	if failure == nil && block > e.Height() {
		failure = evmFailure(-32000, "header not found")
	}
	return block, failure
}

// exists tells whether there is a contract, such as the account of an asset.
func (e *EVM) exists(a address, block int64) bool {
	if from, ok := deployments[a]; ok {
		return block >= from
	}
	_, ok := e.ledger.find(a, block)
	return ok
}

func (e *EVM) ethGetCode(params json.RawMessage) (json.RawMessage, *rpcError) {
	var contract address
	var tag string
	if failure := arguments(params, &contract, &tag); failure != nil {
		return nil, failure
	}
	block, failure := e.state(tag)
	if failure != nil || !e.exists(contract, block) {
		return encode("0x"), failure
	}
	return encode("0x363d3d373d3d3d363d73"), nil // the beginning of a proxy
}

// The functions that can be called.
const (
	selectToken    = "fc0c546a" // token() of the account of an asset
	selectDisputes = "564a565d" // disputes(uint256) of the DisputeModule
)

// ethCall calls a contract. Where there is none, nothing comes back.
func (e *EVM) ethCall(params json.RawMessage) (json.RawMessage, *rpcError) {
	var message struct {
		To          address
		Data, Input string
	}
	var tag string
	if failure := arguments(params, &message, &tag); failure != nil {
		return nil, failure
	}
	input, err := hex.DecodeString(strings.TrimPrefix(cmp.Or(message.Input, message.Data), "0x"))
	if err != nil {
		return nil, evmFailure(-32602, "invalid input: %v", err)
	}
	block, failure := e.state(tag)
	if failure != nil {
		return nil, failure
	}
	selector, to := hex.EncodeToString(input[:min(4, len(input))]), message.To
	a, isAccount := e.ledger.find(to, block)
	switch {
	case !e.exists(to, block):
		return encode("0x"), nil
	case isAccount && selector == selectToken:
		contract := addressWord(collectionAddress(e.ledger.seed, a.collection))
		return encode(hexText(pack(numberWord(e.ledger.chainOf(a.collection)), contract, a.token()))), nil
	case to == disputeAddress && selector == selectDisputes && len(input) == 36:
		return encode(hexText(e.dispute(word(input[4:]), block))), nil
	}
	return nil, evmFailure(3, "execution reverted")
}

// dispute is the record of a dispute: zeros if there is none.
func (e *EVM) dispute(id word, block int64) []byte {
	number := binary.BigEndian.Uint64(id[24:])
	h, ok := e.ledger.disputeAbout(int64(number), block)
	if !ok || id != numberWord(number) {
		return make([]byte, 8*32)
	}
	return append(pack(addressWord(e.ledger.subject(h))), make([]byte, 7*32)...) // whom it is about, and more
}

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

// A filter is what an eth_getLogs asks for. It has lists alone, and they are not empty.
type filter struct {
	Address            []address // any of these; nil: all
	Topics             [][]word  // for each position any of these
	FromBlock, ToBlock string
	BlockHash          *word
}

func (f filter) matches(g evmLog) bool {
	if f.Address != nil && !slices.Contains(f.Address, g.contract) || len(f.Topics) > len(g.topics) {
		return false
	}
	for i, any := range f.Topics {
		if !slices.Contains(any, g.topics[i]) {
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
