package devnet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tidwall/gjson"
)

// evmChainID is the chain id of the execution chain: that of Story's test network.
const evmChainID = 1315

// The contracts whose events are counted, at their addresses on Story's networks. GroupNFT is a collection whose tokens
// are the groups.
const (
	IPAssetRegistry = "0x77319B4031e6eF1250907aa00018B8B1c67a244b"
	LicensingModule = "0x04fbd8a2e56dd85CFD5500A4A4DfA955B9f1dE6f"
	DisputeModule   = "0x9b7A9c70AFF961C799110954fc06F3093aeb94C5"
	GroupNFT        = "0x4709798FeA84C84ae2475fF0c25344115eE1529f"
)

// An EVM is the JSON-RPC server of the chain's execution client, with the methods that an indexer needs. A range beyond
// its head has no logs, which is not an error.
type EVM struct {
	chain  *chain
	ledger ledger
	target *target
	most   atomic.Int64 // maximum number of blocks in one eth_getLogs
}

func newEVM(c *chain, o Options) *EVM {
	evm := &EVM{chain: c, ledger: newLedger(o)}
	evm.target = newTarget(o.EVMAddr, idleTimeout, rpcHandler(evm.call))
	evm.SetRange(o.EVMRange)
	return evm
}

// EVM returns the main execution client.
func (d *Devnet) EVM() *EVM { return d.evm }

// EVMURL returns the URL of its JSON-RPC server.
func (d *Devnet) EVMURL() string { return d.evm.target.url() }

// EVMStart returns the block of the execution chain at the start. It depends only on the number of collections, whose
// history is below it.
func (d *Devnet) EVMStart() int64 { return d.evm.ledger.start() }

// Height returns the newest block that the client knows. It advances with the blocks of the chain.
func (e *EVM) Height() int64 {
	return max(0, e.ledger.start()+e.chain.height()-e.chain.first)
}

// SetFault sets the client's fault.
func (e *EVM) SetFault(f Fault) error { return e.target.setFault(f) }

// SetRange sets the maximum number of blocks in one eth_getLogs.
func (e *EVM) SetRange(blocks int64) { e.most.Store(blocks) }

// call returns the response to a call.
func (e *EVM) call(r rpcRequest) (json.RawMessage, *rpcError) {
	first, second := gjson.GetBytes(r.Params, "0"), gjson.GetBytes(r.Params, "1")
	switch r.Method {
	case "eth_chainId":
		return fmt.Appendf(nil, `"0x%x"`, evmChainID), nil
	case "eth_blockNumber":
		return fmt.Appendf(nil, `"0x%x"`, e.Height()), nil
	case "eth_getBlockByNumber":
		return e.header(e.block(first)), nil
	case "eth_getLogs":
		return e.logs(first)
	case "eth_getCode":
		if !e.exists(first.String(), e.block(second)) {
			return encode("0x"), nil
		}
		return encode("0x363d3d373d3d3d363d73"), nil // the first bytes of a proxy contract
	case "eth_call":
		return e.contractCall(first.Get("to").String(), first.Get("data").String(), e.block(second))
	}
	return nil, evmFailure(-32601, "the method %s does not exist/is not available", r.Method)
}

func evmFailure(code int, format string, arguments ...any) *rpcError {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, arguments...)}
}

// block returns the number in a parameter, or the head for a tag such as "latest". Blocks are final at once.
func (e *EVM) block(tag gjson.Result) int64 {
	if n, err := strconv.ParseInt(tag.String(), 0, 64); err == nil {
		return n
	}
	return e.Height()
}

// Fields of a block without transactions.
const emptyBlock = `"transactions":[],"uncles":[],"withdrawals":[],"difficulty":"0x0","extraData":"0x","gasLimit":"0x1c9c380","gasUsed":"0x0",` +
	`"miner":"0x0000000000000000000000000000000000000000","nonce":"0x0000000000000000","size":"0x220",` +
	`"sha3Uncles":"0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347",` +
	`"transactionsRoot":"0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",` +
	`"receiptsRoot":"0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",` +
	`"withdrawalsRoot":"0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"`

// header returns a block. Its list of transactions is empty, although its logs name transactions.
func (e *EVM) header(block int64) json.RawMessage {
	if block > e.Height() {
		return json.RawMessage("null")
	}
	bloom := [256]byte{}
	for log := range e.ledger.logs(block, block) {
		log.bloom(&bloom)
	}
	return fmt.Appendf(nil, `{"number":"0x%x","hash":%q,"parentHash":%q,"timestamp":"0x%x","logsBloom":"0x%x","stateRoot":%[2]q,"mixHash":%[2]q,`+emptyBlock+`}`,
		block, e.hash(block), e.hash(block-1), e.ledger.time(block).Unix(), bloom[:])
}

// hash returns the hash of a block, which differs after each rollback to below it.
func (e *EVM) hash(block int64) string {
	what := "block"
	if n := e.chain.forksBelow(block - e.ledger.start() + e.chain.first); n > 0 {
		what += strconv.FormatInt(n, 10)
	}
	return numbered(e.ledger.hash(what, block), block)
}

// deployments are the blocks at which the contracts were deployed.
var deployments = map[string]int64{IPAssetRegistry: 901, LicensingModule: 913, DisputeModule: 927, GroupNFT: 940}

// exists reports whether there is a contract at an address, such as the account of an asset.
func (e *EVM) exists(address string, block int64) bool {
	for contract, from := range deployments {
		if strings.EqualFold(address, contract) {
			return block >= from
		}
	}
	_, ok := e.ledger.find(address, block)
	return ok
}

// Selectors of the functions that can be called.
const (
	selectToken    = "0xfc0c546a" // token() of the account of an asset
	selectDisputes = "0x564a565d" // disputes(uint256) of the DisputeModule
)

// contractCall calls a contract. An address without a contract returns nothing.
func (e *EVM) contractCall(to, input string, block int64) (json.RawMessage, *rpcError) {
	a, isAccount := e.ledger.find(to, block)
	id, isDispute := strings.CutPrefix(input, selectDisputes)
	switch {
	case !e.exists(to, block):
		return encode("0x"), nil
	case isAccount && input == selectToken:
		return encode("0x" + numberWord(evmChainID) + addressWord(collectionAddress(e.ledger.seed, a.collection)) + a.token()), nil
	case strings.EqualFold(to, DisputeModule) && isDispute:
		subject := numberWord(0) // of an unknown dispute
		if h, ok := e.ledger.disputeAbout(numberOf(id), block); ok && id == numberWord(uint64(h.dispute)) {
			subject = addressWord(h.ip())
		}
		return encode("0x" + subject + strings.Repeat("0", 7*64)), nil // the asset, and seven fields that are not read
	}
	return nil, evmFailure(3, "execution reverted")
}

// A filter is the parameter of eth_getLogs. Its lists are not empty.
type filter struct {
	Address   []string   // any of these; nil means all
	Topics    [][]string // for each position, any of these
	BlockHash string
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

func (e *EVM) logs(p gjson.Result) (json.RawMessage, *rpcError) {
	var f filter
	if err := json.Unmarshal(bytes.ToLower([]byte(p.Raw)), &f); err != nil {
		return nil, evmFailure(-32602, "invalid arguments: %v", err)
	}
	from, to := e.block(p.Get("fromBlock")), e.block(p.Get("toBlock"))
	if f.BlockHash != "" {
		from = numberOf(f.BlockHash)
		to = from
	}
	switch {
	case f.BlockHash != "" && (from < 0 || from > e.Height() || e.hash(from) != f.BlockHash):
		return nil, evmFailure(-32000, "unknown block")
	case to-from >= e.most.Load():
		return nil, evmFailure(-32005, "query returned more than 10000 results") // some providers send this text whatever the reason is
	}
	out, hash, hashed := []byte("["), "", int64(-1)
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
