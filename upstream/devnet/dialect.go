package devnet

import (
	"fmt"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/devnet/story"
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

// restHandler is the REST API of a node.
func (n *Node) restHandler(noGRPC bool) http.Handler {
	count := func(uri string, height int64) { n.asked.count(Asked{URI: uri, Height: height}) }
	if n.chain.cosmos == nil {
		return n.chain.story.Handler(view{n}, count)
	}
	return n.chain.cosmos.Handler(view{n}, noGRPC, count)
}

// Addresses that are part of every devnet of Story and have much to tell.
const (
	PopularValidator = story.PopularValidator // Options.Delegators delegations
	WideDelegator    = story.WideDelegator    // on up to 61 validators
)

// Validators are the operator addresses of all validators, in order.
func (d *Devnet) Validators() []string {
	if d.options.Dialect == Cosmos {
		return d.chain.cosmos.Operators()
	}
	return d.chain.story.Operators()
}

// Delegators are the addresses that delegate to the popular validator, in order.
func (d *Devnet) Delegators() []string {
	if d.options.Dialect == Cosmos {
		return d.chain.cosmos.Delegators()
	}
	return d.chain.story.Delegators()
}

// application is what abci_info says about the software, by dialect.
func (c *chain) application() (name, version string) {
	if c.cosmos == nil {
		return "story", "v1.5.3"
	}
	return "SimApp", "0.53.6"
}

// A view shows a node to the simulation of its REST API.
type view struct{ *Node }

func (n view) Now() state.Clock {
	return state.Clock{
		Height: n.Height(), Oldest: n.oldest(), Stored: max(1, n.chain.proposed.Load()-n.lag.Load()),
		Restarted: n.restartedAt.Load() == n.chain.height(), CatchingUp: n.catchingUp.Load(),
		Unindexed: n.comet.fault.Load().Unindexed,
	}
}

func (n view) Forks(h int64) int64 { return n.chain.forksBelow(h) }

func (n view) Block(h int64) (at time.Time, hash, appHash []byte) {
	return n.chain.blockTime(h), n.chain.hash("block", h), n.chain.hash("app", h)
}

// Restart makes the node one that has just started: in the dialect cosmos reads of the
// latest height fail until the next block. The end of an outage does the same.
func (n *Node) Restart() { n.restartedAt.Store(n.chain.height()) }
