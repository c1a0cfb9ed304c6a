package devnet

import (
	"fmt"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// A Dialect is the REST API that the nodes of a devnet speak.
type Dialect string

// The dialects. CometBFT's API is the same in both.
const (
	Story  Dialect = "story"
	Cosmos Dialect = "cosmos" // any chain of the Cosmos SDK, by grpc-gateway
)

func (d Dialect) validate() error {
	if d != Story && d != Cosmos {
		return fmt.Errorf("devnet: dialect %q, want %q or %q", d, Story, Cosmos)
	}
	return nil
}

// Dialect is what the nodes speak.
func (d *Devnet) Dialect() Dialect { return d.options.Dialect }

// newCosmos is the state of a chain of the SDK; nil in another dialect.
func newCosmos(o Options) *cosmos.Chain {
	if o.Dialect != Cosmos {
		return nil
	}
	return cosmos.NewChain(cosmos.Options{ChainID: o.ChainID, Seed: o.Seed, Delegators: o.Delegators})
}

// restHandler is the REST API of a node.
func (n *Node) restHandler(noGRPC bool) http.Handler {
	if n.chain.cosmos == nil {
		return newRESTServer(n)
	}
	return n.chain.cosmos.Handler(sdkNode{n}, noGRPC, func(uri string, height int64) { n.asked.count(Asked{URI: uri, Height: height}) })
}

// application is what abci_info says about the software, by dialect.
func (c *chain) application() (name, version string) {
	if c.cosmos == nil {
		return "story", "v1.5.3"
	}
	return "SimApp", "0.53.6"
}

// An sdkNode shows a node to the simulation of the SDK.
type sdkNode struct{ *Node }

func (n sdkNode) Now() cosmos.Clock {
	return cosmos.Clock{
		Height: n.Height(), Oldest: n.oldest(), Stored: max(1, n.chain.proposed.Load()-n.lag.Load()),
		Restarted: n.restartedAt.Load() == n.chain.height(), CatchingUp: n.catchingUp.Load(),
	}
}

func (n sdkNode) Forks(h int64) int64 { return n.chain.forksBelow(h) }

func (n sdkNode) Block(h int64) (at time.Time, hash, appHash []byte) {
	s := n.chain.at(h)
	return n.chain.blockTime(h), s.hash("block"), s.hash("app")
}

// Restart makes the node one that has just started: in the dialect cosmos reads of the
// latest height fail until the next block. The end of an outage does the same.
func (n *Node) Restart() { n.restartedAt.Store(n.chain.height()) }
