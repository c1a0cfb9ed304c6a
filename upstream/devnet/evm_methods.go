package devnet

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An evmMethod is one that can be called. It gets as many parameters as there
// can be; those left out are nil.
type evmMethod struct {
	least, most int // parameters
	run         func(e *EVM, params []json.RawMessage) (json.RawMessage, *rpcError)
}

func evmFailure(code int, format string, arguments ...any) *rpcError {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, arguments...)}
}

func badParams(format string, arguments ...any) *rpcError {
	return evmFailure(-32602, format, arguments...)
}

// evmMethods are what can be called.
var evmMethods = map[string]evmMethod{
	"eth_chainId":          {0, 0, quantity(func(e *EVM) int64 { return int64(e.chainID) })},
	"eth_blockNumber":      {0, 0, quantity((*EVM).Height)},
	"eth_getBlockByNumber": {2, 2, (*EVM).ethGetBlockByNumber},
	"eth_getLogs":          {1, 1, (*EVM).ethGetLogs},
	"eth_getCode":          {1, 2, (*EVM).ethGetCode},
	"eth_call":             {1, 2, (*EVM).ethCall},
}

// quantity is a method that answers with a number.
func quantity(of func(*EVM) int64) func(*EVM, []json.RawMessage) (json.RawMessage, *rpcError) {
	return func(e *EVM, _ []json.RawMessage) (json.RawMessage, *rpcError) {
		return fmt.Appendf(nil, `"0x%x"`, of(e)), nil
	}
}

// call answers a call of one of the methods.
func (e *EVM) call(r rpcRequest) (json.RawMessage, *rpcError) {
	method, known := evmMethods[r.Method]
	if !known {
		return nil, evmFailure(-32601, "the method %s does not exist/is not available", r.Method)
	}
	e.calls.count(r.Method)
	var params []json.RawMessage
	if r.Params != nil && json.Unmarshal(r.Params, &params) != nil {
		return nil, badParams("non-array args")
	}
	for len(params) > 0 && string(params[len(params)-1]) == "null" {
		params = params[:len(params)-1] // null is absent
	}
	switch {
	case len(params) < method.least:
		return nil, badParams("missing value for required argument %d", len(params))
	case len(params) > method.most:
		return nil, badParams("too many arguments, want at most %d", method.most)
	}
	return method.run(e, slices.Concat(params, make([]json.RawMessage, method.most-len(params))))
}

// ethGetBlockByNumber leaves out what no client of the simulated chain reads.
func (e *EVM) ethGetBlockByNumber(params []json.RawMessage) (json.RawMessage, *rpcError) {
	block, failure := e.block(0, params[0])
	if failure != nil {
		return nil, failure
	}
	var full bool
	if json.Unmarshal(params[1], &full) != nil {
		return nil, badParams("invalid argument 1: want a boolean")
	}
	if block > e.Height() {
		return json.RawMessage("null"), nil
	}
	hash, parent := e.hash(block), word{}
	if block > 0 {
		parent = e.hash(block - 1)
	}
	transactions, bloom := []string{}, [256]byte{}
	for log := range e.ledger.logs(block, block) {
		if log.transaction == int64(len(transactions)) { // else another log of the same
			transaction := e.ledger.transactionHash(block, log.transaction)
			transactions = append(transactions, hexText(transaction[:]))
		}
		log.bloom(&bloom)
	}
	return fmt.Appendf(nil, `{"number":"0x%x","hash":"0x%x","parentHash":"0x%x","timestamp":"0x%x","logsBloom":"0x%x","transactions":%s}`,
		block, hash, parent, e.ledger.time(block).Unix(), bloom[:], encode(transactions)), nil
}

// hash is the hash of a block. The number can be read from it.
func (e *EVM) hash(block int64) word {
	what := "block"
	if w := e.rewrite.Load(); w.times > 0 && block >= w.from {
		what += strconv.Itoa(w.times)
	}
	if e.target.currentFault().WrongHashes {
		what += "wrong"
	}
	w := e.ledger.hash(what, block)
	binary.BigEndian.PutUint64(w[24:], uint64(block)^e.ledger.mask)
	return w
}

// block is the number that a parameter gives: the head by default.
func (e *EVM) block(position int, param json.RawMessage) (int64, *rpcError) {
	if param == nil || string(param) == "null" {
		return e.Height(), nil
	}
	var text string
	if json.Unmarshal(param, &text) != nil {
		return 0, badParams("invalid argument %d: want a block number", position)
	}
	switch text {
	case "latest", "safe", "finalized", "pending": // blocks are final at once
		return e.Height(), nil
	case "earliest":
		return 0, nil
	}
	digits, prefixed := strings.CutPrefix(text, "0x")
	n, err := strconv.ParseUint(digits, 16, 63)
	if err != nil || !prefixed || len(digits) > 1 && digits[0] == '0' {
		return 0, badParams("invalid argument %d: invalid block number %q", position, text)
	}
	return int64(n), nil
}

// state is the block to read a state at. Unlike a range it must exist.
func (e *EVM) state(position int, param json.RawMessage) (int64, *rpcError) {
	block, failure := e.block(position, param)
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

func (e *EVM) ethGetCode(params []json.RawMessage) (json.RawMessage, *rpcError) {
	var contract address
	if err := json.Unmarshal(params[0], &contract); err != nil {
		return nil, badParams("invalid argument 0: %v", err)
	}
	block, failure := e.state(1, params[1])
	if failure != nil {
		return nil, failure
	}
	if !e.exists(contract, block) {
		return encode("0x"), nil
	}
	return encode("0x363d3d373d3d3d363d73"), nil // the beginning of a proxy
}

// The functions that can be called.
const (
	selectToken    = "fc0c546a" // token() of the account of an asset
	selectDisputes = "564a565d" // disputes(uint256) of the DisputeModule
)

func (e *EVM) ethCall(params []json.RawMessage) (json.RawMessage, *rpcError) {
	var message struct {
		To          *address
		Data, Input string
	}
	if err := json.Unmarshal(params[0], &message); err != nil {
		return nil, badParams("invalid argument 0: %v", err)
	}
	input, err := hex.DecodeString(strings.TrimPrefix(cmp.Or(message.Input, message.Data), "0x"))
	if message.To == nil || err != nil {
		return nil, badParams("invalid argument 0: want an address and data")
	}
	block, failure := e.state(1, params[1])
	if failure != nil {
		return nil, failure
	}
	return e.execute(*message.To, input, block)
}

// execute calls a contract. Where there is none, nothing comes back.
func (e *EVM) execute(to address, input []byte, block int64) (json.RawMessage, *rpcError) {
	selector := hex.EncodeToString(input[:min(4, len(input))])
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
	infringer := word{}
	if h.kind == tagged {
		infringer = numberWord(uint64(h.dispute - 1))
	}
	return pack(addressWord(e.ledger.subject(h)), e.ledger.someone("raiser", h.number), e.ledger.moment(h.block), e.ledger.someone("policy", 0),
		e.ledger.hash("evidence", h.number), disputeTag(), disputeTag(), infringer)
}
