package heights

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// cometClient is what is asked of a node's CometBFT: a [comet.Client].
type cometClient interface {
	Status(ctx context.Context) (comet.Status, error)
	// Committed is the newest height that can be read.
	Committed(ctx context.Context) (int64, error)
	// Hash is the hash of a block that has another after it.
	Hash(ctx context.Context, height int64) (string, error)
	Subscribe(ctx context.Context) (Headers, error)
}

// Headers are those of new blocks, as a subscription streams them.
type Headers interface {
	// Next waits for the next one. It is zero for what is none.
	Next(ctx context.Context) (comet.Header, error)
	// Close ends the subscription, and Next.
	Close()
}

// A reader reads of one node.
type reader interface {
	// Read reads something cheap at a height, 0 for the node's latest.
	Read(ctx context.Context, height int64) (Reading, error)
	// BlockHash is the hash of a block that has another after it, in hex, "" where the REST
	// server of such a node tells none.
	BlockHash(ctx context.Context, height int64) (string, error)
}

// A Reading is what a read says of a node's blocks.
type Reading struct {
	Outcome Outcome
	Height  int64 // where it was read, or was to be; 0 unknown
	Latest  int64 // newest height that a refusal names; 0 for none
}

// Outcome is what became of a read at a height.
type Outcome int

// The outcomes.
const (
	Answered Outcome = iota // the node has the height
	Pruned                  // it no longer has it
	Future                  // it does not have it yet
	Unknown                 // the answer does not say
)

// A Node is one node of the chain, and what is known of its blocks.
type Node struct {
	Name   string
	Comet  cometClient // nil: the reader alone tells the height
	Reader reader
	Tells  func() bool // whether a read of the latest says at which height it is
	Logger *slog.Logger

	mu     sync.Mutex
	state  State
	delays delays
}

// State is what is known of a node's blocks.
type State struct {
	Unseen     bool      // it has CometBFT, which has not been asked yet
	ChainID    string    // as CometBFT says; "" unknown
	Refused    bool      // it serves another chain
	Forked     bool      // it has another block than our chain
	Height     int64     // newest committed block; 0 unknown
	Lowest     int64     // nothing below can be read; 0 unknown
	BlockTime  time.Time // of the newest header; zero unknown
	Heard      time.Time // when one of its sources was last believed
	CatchingUp bool      // it is behind its peers
	Connected  bool      // block headers stream in
	TxIndex    string    // on or off: whether its CometBFT finds transactions; "" unknown
	Aside      bool      // CometBFT claims what is not believed
	Late       bool      // there are blocks that CometBFT has not told of
	CometDown  bool      // CometBFT does not answer
	CometErr   error     // what it fails with now
}

// Foreign says that the node's answers are not of our chain.
func (s *State) Foreign() bool { return s.Refused || s.Forked }

// Current says whether a source of the node was heard from lately.
func (s *State) Current(interval time.Duration) bool {
	return time.Since(s.Heard) <= tip.ClaimLifetime(interval)
}

// Look is what is known as of now.
func (n *Node) Look() State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

func (n *Node) update(change func(*State)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.state)
}

// Forget is called when the node may have been restarted, perhaps with other
// blocks.
func (n *Node) Forget() { n.update(func(s *State) { s.Lowest = 0 }) }
