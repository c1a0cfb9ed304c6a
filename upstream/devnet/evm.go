package devnet

import (
	"cmp"
	"fmt"
	"maps"
	"sync"
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

// An EVM is the JSON-RPC endpoint of the chain's execution client. What lies past
// its head does not exist for it: it has no logs there and does not say why.
type EVM struct {
	chain   *chain
	ledger  ledger
	target  *target
	chainID uint64
	limits  atomic.Pointer[limits]
	rewrite atomic.Pointer[rewrite]

	mu    sync.Mutex
	calls map[string]int64 // by method
}

// limits are what one eth_getLogs may ask for.
type limits struct {
	blocks  int64
	results int // 0: any number
	refusal Refusal
}

// A rewrite is a change of the hashes from a block on.
type rewrite struct {
	from  int64
	times int
}

func newEVM(c *chain, o Options) (*EVM, error) {
	evm := &EVM{chain: c, ledger: newLedger(o), chainID: o.EVMChainID, calls: map[string]int64{}}
	evm.target = newTarget("evm", cmp.Or(o.EVMAddr, anyPort), o.IdleTimeout, rpcHandler(evm.call))
	evm.rewrite.Store(&rewrite{})
	return evm, evm.SetLimits(o.EVMRange, 0, o.EVMRefusal)
}

// EVM is the endpoint of the execution client.
func (d *Devnet) EVM() *EVM { return d.evm }

// EVMURL is the URL of the endpoint's JSON-RPC server.
func (d *Devnet) EVMURL() string { return d.evm.URL() }

// EVMStart is the block of the execution chain that the devnet starts at. It
// depends on the number of collections alone: their history is below it.
func (d *Devnet) EVMStart() int64 { return d.evm.ledger.start() }

// URL is where the endpoint takes JSON-RPC.
func (e *EVM) URL() string { return e.target.url() }

// Height is the newest block that the endpoint knows. It moves with the blocks
// of the chain.
func (e *EVM) Height() int64 {
	return max(0, e.ledger.start()+e.chain.height()-e.chain.first)
}

// SetFault puts a fault in force on the endpoint.
func (e *EVM) SetFault(f Fault) error { return e.target.setFault(f) }

// SetLimits changes how many blocks one eth_getLogs may span, how many logs it
// may find (0: any number) and how the endpoint refuses more.
func (e *EVM) SetLimits(blocks int64, results int, r Refusal) error {
	if blocks < 1 || results < 0 {
		return fmt.Errorf("devnet: limits of %d blocks and %d logs", blocks, results)
	}
	err := r.validate()
	if err == nil {
		e.limits.Store(&limits{blocks, results, r})
	}
	return err
}

// Rewrite gives the blocks from one on other hashes than they had, as if the
// endpoint had been reset: the parent of the next block is not the one that
// was read before. What is in the blocks stays the same.
func (e *EVM) Rewrite(from int64) {
	e.rewrite.Store(&rewrite{from: from, times: e.rewrite.Load().times + 1})
}

// EVMStats are what an endpoint was asked since the start or the last reset.
type EVMStats struct {
	Requests int64            `json:"requests"`        // over HTTP, failed ones included
	Calls    map[string]int64 `json:"calls,omitempty"` // by method; a batch has many
}

// Stats say what the endpoint was asked so far.
func (e *EVM) Stats() EVMStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return EVMStats{Requests: e.target.requests.Load(), Calls: maps.Clone(e.calls)}
}

func (e *EVM) count(method string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls[method]++
}

// ResetStats forgets what the endpoint was asked.
func (e *EVM) ResetStats() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.target.requests.Store(0)
	clear(e.calls)
}
