package devnet

import (
	"cmp"
	"errors"
	"sync/atomic"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// NodeOptions describe one more node of a chain.
type NodeOptions struct {
	Lag        int64 // blocks it is behind the chain
	KeepRecent int64 // heights that stay readable: default that of the chain
	CatchingUp bool  // what /status says
	NoGRPC     bool  // Cosmos alone: grpc.enable = false
	RESTAddr   string
	CometAddr  string // where to listen: default free loopback ports
	GRPCAddr   string // Cosmos alone
}

// A Node is one node of the chain: a REST server and a CometBFT RPC server.
type Node struct {
	chain      *chain
	keepRecent int64
	catchingUp atomic.Bool
	lag        atomic.Int64
	asked      *tally[Asked] // whose own counts are 0
	rest       *target
	comet      *target
	grpc       *target // nil but in the dialect of the SDK

	restartedAt atomic.Int64 // the height at that time
}

func newNode(c *chain, o Options, n NodeOptions) *Node {
	n.KeepRecent = cmp.Or(n.KeepRecent, o.KeepRecent)
	node := &Node{chain: c, keepRecent: n.KeepRecent, asked: newTally[Asked]()}
	node.lag.Store(n.Lag)
	node.catchingUp.Store(n.CatchingUp)
	node.rest = newTarget("node", n.RESTAddr, o.IdleTimeout, node.restHandler(n.NoGRPC))
	if c.cosmos != nil {
		node.rest.words = cosmos.Unavailable
	}
	if c.cosmos != nil && !n.NoGRPC {
		node.grpc = newTarget("gRPC", n.GRPCAddr, 0, &grpcServer{node: node})
		node.grpc.h2c = true
	}
	node.comet = newTarget("comet", n.CometAddr, 0, &cometServer{node: node})
	return node
}

// Close stops the node and waits for its goroutines.
func (n *Node) Close() error {
	closeAll(n.targets()...)
	return nil
}

func (n *Node) targets() []*target {
	if n.grpc == nil {
		return []*target{n.rest, n.comet}
	}
	return []*target{n.rest, n.comet, n.grpc}
}

// GRPCAddr is the address of the gRPC server, "" for none, as in the dialect of Story.
func (n *Node) GRPCAddr() string {
	if n.grpc == nil {
		return ""
	}
	return *n.grpc.addr.Load()
}

// RESTURL is the base of the REST server, without a trailing slash.
func (n *Node) RESTURL() string { return n.rest.url() }

// CometURL is the base of the CometBFT RPC server; the websocket is at /websocket.
func (n *Node) CometURL() string { return n.comet.url() }

// Height is the newest block that this node can read.
func (n *Node) Height() int64 { return max(1, n.chain.height()-n.lag.Load()) }

// ahead is by how many blocks the heights that the CometBFT server tells are too
// high.
func (n *Node) ahead() int64 { return n.comet.fault.Load().Ahead }

// oldest is the lowest height that has not been pruned.
func (n *Node) oldest() int64 { return max(1, n.Height()-n.keepRecent) }

// SetLag changes how many blocks the node is behind the chain.
func (n *Node) SetLag(blocks int64) {
	n.lag.Store(blocks)
	n.chain.signal() // watchers look again, although there is no new block
}

// SetCatchingUp changes what /status says about it.
func (n *Node) SetCatchingUp(yes bool) { n.catchingUp.Store(yes) }

// SetFaults puts faults in force on the two servers of the node.
func (n *Node) SetFaults(rest, comet Fault) error {
	if n.rest.currentFault().Outage != "" && rest.Outage == "" {
		n.Restart()
	}
	return errors.Join(n.rest.setFault(rest), n.comet.setFault(comet))
}
