package devnet

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
)

// DefaultEVMChainID is the identifier of the execution chain unless Options say
// otherwise: that of Story's test network.
const DefaultEVMChainID = 1315

// The contracts whose events count, at the addresses they have on Story's
// networks. Groups are tokens of GroupNFT, which makes it a collection.
const (
	IPAssetRegistry = "0x77319B4031e6eF1250907aa00018B8B1c67a244b"
	LicensingModule = "0x04fbd8a2e56dd85CFD5500A4A4DfA955B9f1dE6f"
	DisputeModule   = "0x9b7A9c70AFF961C799110954fc06F3093aeb94C5"
	GroupNFT        = "0x4709798FeA84C84ae2475fF0c25344115eE1529f"
)

// An EVM is the JSON-RPC endpoint of the chain's execution client. A range
// past its head has no logs, which is no error.
type EVM struct {
	chain   *chain
	ledger  ledger
	target  *target
	chainID uint64
	limits  atomic.Pointer[limits]
	calls   *tally[string] // by method
}

// limits are how many blocks one eth_getLogs may span, and what more is answered.
type limits struct {
	blocks  int64
	refusal rpcError
}

func newEVM(c *chain, o Options) (*EVM, error) {
	evm := &EVM{chain: c, ledger: newLedger(o), chainID: o.EVMChainID, calls: newTally[string]()}
	evm.target = newTarget(o.EVMAddr, idleTimeout, rpcHandler(evm.call))
	return evm, evm.SetLimits(o.EVMRange, o.EVMRefusal)
}

// EVM is the endpoint of the execution client.
func (d *Devnet) EVM() *EVM { return d.evm }

// EVMURL is the URL of the endpoint's JSON-RPC server.
func (d *Devnet) EVMURL() string { return d.evm.target.url() }

// EVMStart is the block of the execution chain that the devnet starts at. It
// depends on the number of collections alone: their history is below it.
func (d *Devnet) EVMStart() int64 { return d.evm.ledger.start() }

// Height is the newest block that the endpoint knows. It moves with the blocks
// of the chain.
func (e *EVM) Height() int64 {
	return max(0, e.ledger.start()+e.chain.height()-e.chain.first)
}

// SetFault puts a fault in force on the endpoint.
func (e *EVM) SetFault(f Fault) error { return e.target.setFault(f) }

// SetLimits changes how many blocks one eth_getLogs may span and how the endpoint
// refuses more.
func (e *EVM) SetLimits(blocks int64, r Refusal) error {
	refusal, known := refusals[r]
	switch {
	case blocks < 1:
		return fmt.Errorf("devnet: a limit of %d blocks", blocks)
	case !known:
		return fmt.Errorf("devnet: refusal %q, want -32005, -32602, -32000, 413 or 400", r)
	}
	refusal.Message = strings.ReplaceAll(refusal.Message, "{blocks}", strconv.FormatInt(blocks, 10))
	e.limits.Store(&limits{blocks, refusal})
	return nil
}

// EVMStats are what an endpoint was asked since the start or the last reset.
type EVMStats struct {
	Requests int64            `json:"requests"`        // over HTTP, failed ones included
	Calls    map[string]int64 `json:"calls,omitempty"` // by method; a batch has many
}

// Stats say what the endpoint was asked so far.
func (e *EVM) Stats() EVMStats {
	calls, _ := e.calls.snapshot()
	return EVMStats{Requests: e.target.requests.Load(), Calls: calls}
}

// ResetStats forgets what the endpoint was asked.
func (e *EVM) ResetStats() {
	e.target.requests.Store(0)
	e.calls.reset()
}
