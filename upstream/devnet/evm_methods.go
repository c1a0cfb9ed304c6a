package devnet

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// An evmMethod is one that can be called. It gets as many parameters as there
// can be; those left out are nil.
type evmMethod struct {
	least, most int // parameters
	run         func(e *EVM, params []json.RawMessage) (json.RawMessage, *evmError)
}

// evmMethods are what can be called.
var evmMethods = map[string]evmMethod{
	"eth_chainId":          {0, 0, (*EVM).ethChainID},
	"eth_blockNumber":      {0, 0, (*EVM).ethBlockNumber},
	"eth_getBlockByNumber": {2, 2, (*EVM).ethGetBlockByNumber},
	"eth_getLogs":          {1, 1, (*EVM).ethGetLogs},
	"eth_getCode":          {1, 2, (*EVM).ethGetCode},
	"eth_call":             {1, 2, (*EVM).ethCall},
}

func (e *EVM) ethChainID([]json.RawMessage) (json.RawMessage, *evmError) {
	return fmt.Appendf(nil, `"0x%x"`, e.chainID), nil
}

func (e *EVM) ethBlockNumber([]json.RawMessage) (json.RawMessage, *evmError) {
	return fmt.Appendf(nil, `"0x%x"`, e.Height()), nil
}

// ethGetBlockByNumber leaves out what nobody here reads.
func (e *EVM) ethGetBlockByNumber(params []json.RawMessage) (json.RawMessage, *evmError) {
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
	transactions := []string{}
	for log := range e.ledger.logs(block, block) {
		if log.transaction == int64(len(transactions)) { // else another log of the same
			transaction := e.ledger.transactionHash(block, log.transaction)
			transactions = append(transactions, hexText(transaction[:]))
		}
	}
	return fmt.Appendf(nil, `{"number":"0x%x","hash":"0x%x","parentHash":"0x%x","timestamp":"0x%x","transactions":%s}`,
		block, hash, parent, e.ledger.time(block).Unix(), encode(transactions)), nil
}

// hash is the hash of a block. The number can be read from it.
func (e *EVM) hash(block int64) word {
	what := "block"
	if w := e.rewrite.Load(); w.times > 0 && block >= w.from {
		what += strconv.Itoa(w.times)
	}
	w := e.ledger.hash(what, block)
	binary.BigEndian.PutUint64(w[24:], uint64(block)^e.ledger.mask)
	return w
}

// block is the number that a parameter gives: the head by default.
func (e *EVM) block(position int, param json.RawMessage) (int64, *evmError) {
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
	n, err := strconv.ParseInt(digits, 16, 64)
	switch {
	case !prefixed:
		return 0, badParams("invalid argument %d: hex string without 0x prefix", position)
	case err != nil || n < 0 || digits[0] == '+':
		return 0, badParams("invalid argument %d: invalid hex number", position)
	case len(digits) > 1 && digits[0] == '0':
		return 0, badParams("invalid argument %d: hex number with leading zero digits", position)
	}
	return n, nil
}

// state is the block to read a state at. Unlike a range it must exist.
func (e *EVM) state(position int, param json.RawMessage) (int64, *evmError) {
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

func (e *EVM) ethGetCode(params []json.RawMessage) (json.RawMessage, *evmError) {
	var text string
	_ = json.Unmarshal(params[0], &text) // what is no text is no address
	contract, ok := parseAddress(text)
	if !ok {
		return nil, badParams("invalid argument 0: want an address")
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

func parseAddress(text string) (address, bool) {
	raw, err := parseHex(text)
	if err != nil || len(raw) != len(address{}) {
		return address{}, false
	}
	return address(raw), true
}

// The functions that can be called.
const (
	selectToken    = "fc0c546a" // token() of the account of an asset
	selectDisputes = "564a565d" // disputes(uint256) of the DisputeModule
)

func (e *EVM) ethCall(params []json.RawMessage) (json.RawMessage, *evmError) {
	var message struct{ To, Data, Input string }
	if err := json.Unmarshal(params[0], &message); err != nil {
		return nil, badParams("invalid argument 0: %v", err)
	}
	if message.Input == "" {
		message.Input = message.Data
	}
	to, ok := parseAddress(message.To)
	input, err := hex.DecodeString(strings.TrimPrefix(message.Input, "0x"))
	if !ok || err != nil {
		return nil, badParams("invalid argument 0: want an address and data")
	}
	block, failure := e.state(1, params[1])
	if failure != nil {
		return nil, failure
	}
	return e.execute(to, input, block)
}

// execute calls a contract. Where there is none, nothing comes back.
func (e *EVM) execute(to address, input []byte, block int64) (json.RawMessage, *evmError) {
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
