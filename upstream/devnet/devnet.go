// Package devnet simulates the origins: a chain node (REST and CometBFT RPC), its
// execution client (JSON-RPC), a metadata provider and a set of collections. It
// serves demonstrations, tests and load tests.
//
// The state of its chain is a pure function of seed, sizes and height, as are the
// logs of the execution client, which the collections come from. Nothing
// is stored, so any height can be read at any time, and two devnets with the
// same Options agree byte for byte about every height.
package devnet

import (
	"cmp"
	"fmt"
	"sync"
	"time"
)

// Options say what to simulate. The zero value is a whole devnet on free
// loopback ports that makes a block every two seconds.
type Options struct {
	Seed        uint64        // varies amounts, generated addresses and collections
	Dialect     Dialect       // of the nodes' REST API: default Story
	NoGRPC      bool          // Cosmos alone: the main node runs with grpc.enable = false
	Base64Keys  bool          // Story alone: the nodes read page keys in base64, as since piplabs/story#827
	ChainID     string        // default "devnet-1"
	Validators  int           // default 71, at least 8
	Turnover    int           // one in so many validators is missing from the list of validators, others at every block; default 0: none
	Delegators  int           // delegations of the popular validator: default 1600, at least 4
	StartHeight int64         // height at the start: default 1000; far above 20,000,000 amounts outgrow their type
	Interval    time.Duration // between blocks: default 2 s; negative: only Advance makes blocks
	StatusLead  time.Duration // how long /status shows a block before it can be read: default 36 ms; negative: none
	KeepRecent  int64         // heights that stay readable: default 72,000
	Collections int           // collections that exist: default 500

	StartTime time.Time // of the execution block at the start: default in March 2026; later ones follow at the interval
	EVMRange  int64     // most blocks in one eth_getLogs: default 10,000

	NodeAddr     string // where to listen, default a free loopback port; also for the next five
	CometAddr    string
	GRPCAddr     string // Cosmos alone
	MetadataAddr string
	EVMAddr      string
	ControlAddr  string

	Faults Faults // in force from the start
}

// withDefaults replaces what was left out.
func (o Options) withDefaults() Options {
	o.Dialect = cmp.Or(o.Dialect, Story)
	o.ChainID = cmp.Or(o.ChainID, "devnet-1")
	o.Validators = max(8, cmp.Or(o.Validators, 71))
	o.Delegators = max(4, cmp.Or(o.Delegators, 1600))
	o.StartHeight = max(1, cmp.Or(o.StartHeight, 1000))
	o.Interval = cmp.Or(o.Interval, 2*time.Second)
	o.StatusLead = cmp.Or(o.StatusLead, 36*time.Millisecond)
	o.KeepRecent = cmp.Or(o.KeepRecent, 72_000)
	o.Collections = max(0, cmp.Or(o.Collections, 500))
	o.EVMRange = cmp.Or(o.EVMRange, 10_000)
	if o.StartTime.IsZero() {
		o.StartTime = firstCollection.Add(historyBeforeStart)
	}
	return o
}

// A Devnet is one simulated chain with at least one node, an execution client, a
// metadata provider and a control server. Its methods are safe for concurrent use.
type Devnet struct {
	options  Options
	chain    *chain
	evm      *EVM
	metadata *target
	control  *target

	mu    sync.Mutex
	nodes []*Node // the first is the main node
}

// New prepares a devnet. It listens and makes blocks from Start on.
func New(o Options) (*Devnet, error) {
	o = o.withDefaults()
	if o.Dialect != Story && o.Dialect != Cosmos {
		return nil, fmt.Errorf("devnet: dialect %q, want %q or %q", o.Dialect, Story, Cosmos)
	}
	d := &Devnet{options: o, chain: newChain(o)}
	d.metadata = newTarget(o.MetadataAddr, idleTimeout, newProvider(o))
	d.control = newTarget(o.ControlAddr, 0, d.controlHandler())
	d.nodes = []*Node{newNode(d.chain, o)}
	d.evm = newEVM(d.chain, o)
	d.chain.evmStart = d.EVMStart()
	if err := d.SetFaults(o.Faults); err != nil {
		return nil, err
	}
	return d, nil
}

// Start opens the listeners and begins to make blocks. After an error nothing
// is left running.
func (d *Devnet) Start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := openAll(d.targets()...); err != nil {
		return err
	}
	d.chain.start()
	return nil
}

// targets are the servers. They need no lock while closing: nodes are only
// appended, and not after that.
func (d *Devnet) targets() []*target {
	all := []*target{d.evm.target, d.metadata, d.control}
	for _, n := range d.nodes {
		all = append(all, n.targets...)
	}
	return all
}

// Close stops the chain and every server and waits for their goroutines.
// Closing twice is harmless.
func (d *Devnet) Close() error {
	d.chain.stop()
	closeAll(d.targets()...)
	return nil
}

// AddNode starts another node of the same chain on free ports. It lives until Close of
// the devnet, which must have been started.
func (d *Devnet) AddNode() (*Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.options
	o.NodeAddr, o.CometAddr, o.GRPCAddr = "", "", ""
	n := newNode(d.chain, o)
	if err := openAll(n.targets...); err != nil {
		return nil, err
	}
	d.nodes = append(d.nodes, n)
	return n, nil
}

// Node is the main node.
func (d *Devnet) Node() *Node { return d.nodes[0] }

// NodeURL is the base of the main node's REST server, without a trailing slash.
func (d *Devnet) NodeURL() string { return d.nodes[0].RESTURL() }

// CometURL is the base of the main node's CometBFT RPC server.
func (d *Devnet) CometURL() string { return d.nodes[0].CometURL() }

// MetadataURL is the base of the metadata provider: /nft/v3/{key}/... is below it.
func (d *Devnet) MetadataURL() string { return d.metadata.url() }

// ControlURL is the base of the control server: /devnet/... is below it.
func (d *Devnet) ControlURL() string { return d.control.url() }

// ChainID is the name of the chain.
func (d *Devnet) ChainID() string { return d.options.ChainID }

// Height is the newest block of the chain that can be read.
func (d *Devnet) Height() int64 { return d.chain.height() }

// CommittedAt is when a block could be read first, of those since the start and of those
// that will come at the interval.
func (d *Devnet) CommittedAt(height int64) time.Time { return d.chain.committedAt(height) }

// Advance makes n blocks at once, whether or not the chain is halted.
func (d *Devnet) Advance(n int64) {
	for range n {
		d.chain.commit()
	}
}

// SetBack takes the newest n blocks away, of the execution client too, as when a
// node is restored from a snapshot or a network is reset. The blocks that are made
// in their place have another content. Connections for events end.
func (d *Devnet) SetBack(n int64) { d.chain.setBack(n) }

// Halt stops the making of blocks; the nodes go on answering with old state,
// as a node does whose execution client has died.
func (d *Devnet) Halt() { d.chain.halted.Store(true) }

// Resume ends Halt.
func (d *Devnet) Resume() { d.chain.halted.Store(false) }
