// Package devnet simulates the upstreams: a chain node (REST and CometBFT RPC), its execution client (JSON-RPC), a
// metadata provider and a set of collections. It is used by the demo, tests and load tests.
//
// The state of its chain is a pure function of seed, sizes and height, as are the logs of the execution client, from
// which collections are counted. Nothing is stored, so any height can be read at any time, and two devnets with the
// same Options agree byte for byte about every height.
package devnet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// Options describe a devnet. The zero value is a whole devnet on free loopback ports that makes a block every two
// seconds.
type Options struct {
	Seed        uint64        // varies amounts, generated addresses and collections
	Dialect     Dialect       // of the nodes' REST API: default Story
	NoGRPC      bool          // Cosmos only: the main node runs with grpc.enable = false
	Base64Keys  bool          // Story only: nodes read page keys in base64, as since piplabs/story#827
	ChainID     string        // default "devnet-1"
	Validators  int           // default 71, at least 8
	Delegators  int           // delegations of the popular validator: default 1600, at least 4
	StartHeight int64         // height at the start: default 1000; far above 20,000,000 amounts outgrow their type
	Interval    time.Duration // between blocks: default 2 s; negative: only Advance makes blocks
	StatusLead  time.Duration // how long /status shows a block before it can be read: default 36 ms; negative: none
	KeepRecent  int64         // heights that stay readable: default 72,000
	Collections int           // collections that exist: default 500

	StartTime time.Time // time of the execution block at the start: default in March 2026; later ones follow at the interval
	EVMRange  int64     // most blocks in one eth_getLogs: default 10,000

	NodeAddr     string // address to listen on: default a free loopback port; also for the next five
	CometAddr    string
	GRPCAddr     string // Cosmos only
	MetadataAddr string
	EVMAddr      string
	ControlAddr  string

	Faults Faults // in force from the start
}

// withDefaults replaces zero values with defaults.
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

	node  *Node // the main node
	mu    sync.Mutex
	added []*Node // the others
}

// New returns a devnet. Start makes it listen and produce blocks.
func New(o Options) (*Devnet, error) {
	o = o.withDefaults()
	if o.Dialect != Story && o.Dialect != Cosmos {
		return nil, fmt.Errorf("devnet: dialect %q, want %q or %q", o.Dialect, Story, Cosmos)
	}
	d := &Devnet{options: o, chain: newChain(o)}
	d.metadata = newTarget(o.MetadataAddr, idleTimeout, newProvider(o))
	d.control = newTarget(o.ControlAddr, 0, d.controlHandler())
	d.node = newNode(d.chain, o)
	d.evm = newEVM(d.chain, o)
	d.chain.evmStart = d.EVMStart()
	if err := d.SetFaults(o.Faults); err != nil {
		return nil, err
	}
	return d, nil
}

// Start opens the listeners and starts making blocks. After an error nothing is left running.
func (d *Devnet) Start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := openAll(d.targets()...); err != nil {
		return err
	}
	d.chain.start()
	return nil
}

// targets returns all servers. Closing them needs no lock: nodes are only added before Close.
func (d *Devnet) targets() []*target {
	all := []*target{d.evm.target, d.metadata, d.control}
	all = append(all, d.node.targets...)
	for _, n := range d.added {
		all = append(all, n.targets...)
	}
	return all
}

// Close stops the chain and all servers and waits for their goroutines. It may be called twice.
func (d *Devnet) Close() error {
	d.chain.stop()
	closeAll(d.targets()...)
	return nil
}

// AddNode starts another node of the same chain on these addresses. The devnet must have been started; its Close also
// closes the node.
func (d *Devnet) AddNode(rest, comet, grpc string) (*Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.options
	o.NodeAddr, o.CometAddr, o.GRPCAddr = rest, comet, grpc
	n := newNode(d.chain, o)
	if err := openAll(n.targets...); err != nil {
		return nil, err
	}
	d.added = append(d.added, n)
	return n, nil
}

// Node returns the main node.
func (d *Devnet) Node() *Node { return d.node }

// NodeURL returns the base URL of the main node's REST server, without a trailing slash.
func (d *Devnet) NodeURL() string { return d.node.RESTURL() }

// CometURL returns the base URL of the main node's CometBFT RPC server.
func (d *Devnet) CometURL() string { return d.node.CometURL() }

// MetadataURL returns the base URL of the metadata provider, which serves /nft/v3/{key}/...
func (d *Devnet) MetadataURL() string { return d.metadata.url() }

// ControlURL returns the base URL of the control server, which serves /devnet/...
func (d *Devnet) ControlURL() string { return d.control.url() }

// ChainID returns the chain id.
func (d *Devnet) ChainID() string { return d.options.ChainID }

// Height returns the newest block that can be read.
func (d *Devnet) Height() int64 { return d.chain.height() }

// CommittedAt returns when a block since the start could first be read, or is expected to be.
func (d *Devnet) CommittedAt(height int64) time.Time { return d.chain.committedAt(height) }

// Advance makes n blocks at once, whether or not the chain is halted.
func (d *Devnet) Advance(n int64) {
	for range n {
		d.chain.commit()
	}
}

// RollBack removes the newest n blocks, also those of the execution client, as if a node were restored from a snapshot
// or a network were reset. The blocks that replace them differ. Event connections are closed.
func (d *Devnet) RollBack(n int64) { d.chain.rollBack(n) }

// Halt stops making blocks. The nodes continue to serve their state, like a node whose execution client has died.
func (d *Devnet) Halt() { d.chain.halted.Store(true) }

// Resume resumes making blocks after Halt.
func (d *Devnet) Resume() { d.chain.halted.Store(false) }

// Stats are the numbers of requests to a devnet's servers since the start.
type Stats struct {
	Node     NodeStats `json:"node"`     // of the main node
	Provider int64     `json:"provider"` // requests at the metadata provider
	EVM      int64     `json:"evm"`      // requests at the execution client, failed ones included
}

// Stats returns the numbers of requests so far.
func (d *Devnet) Stats() Stats {
	return Stats{Node: d.node.Stats(), Provider: d.metadata.requests.Load(), EVM: d.evm.target.requests.Load()}
}

// controlHandler serves the requests that control a devnet:
//
//	GET    /devnet/faults   the faults in force, as YAML
//	PUT    /devnet/faults   replaces the faults of the named targets; YAML or JSON
//	GET    /devnet/stats    numbers of requests, and the 100 most frequent ones
func (d *Devnet) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /devnet/faults", func(w http.ResponseWriter, _ *http.Request) { _ = yaml.NewEncoder(w).Encode(d.Faults()) })
	mux.HandleFunc("PUT /devnet/faults", d.putFaults)
	mux.HandleFunc("GET /devnet/stats", func(w http.ResponseWriter, _ *http.Request) {
		stats := d.Stats()
		stats.Node.ReadCounts = stats.Node.ReadCounts[:min(100, len(stats.Node.ReadCounts))]
		reply(w, stats)
	})
	return mux
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}

func (d *Devnet) putFaults(w http.ResponseWriter, r *http.Request) {
	var named struct{ Node, Comet, Provider, EVM *Fault }
	decoder := yaml.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	decoder.KnownFields(true)
	err := decoder.Decode(&named)
	faults := d.Faults()
	for fault, given := range map[*Fault]*Fault{&faults.Node: named.Node, &faults.Comet: named.Comet, &faults.Provider: named.Provider, &faults.EVM: named.EVM} {
		if given != nil {
			*fault = *given
		}
	}
	if err == nil {
		err = d.SetFaults(faults)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = yaml.NewEncoder(w).Encode(d.Faults())
}
