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
	Subscribe(ctx context.Context) (comet.Headers, error)
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
	Lowest     int64     // a node with a lower one is better for reads below it; never above the tip or a height that was read; 0 unknown
	BlockTime  time.Time // of the newest header; zero unknown
	Heard      time.Time // when one of its sources was last believed
	CatchingUp bool      // it is behind its peers
	Connected  bool      // block headers stream in
	Lost       int64     // subscriptions to block headers that have ended: the node may have been restarted each time
	TxIndex    string    // on or off: whether its CometBFT finds transactions; "" unknown
	NoEvents   error     // why events cannot be read from its CometBFT; nil where they can, or while it has not answered
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

// Forget is called when the node may have been restarted, perhaps with other blocks.
func (n *Node) Forget() { n.update(func(s *State) { s.Lowest = 0 }) }

// suggestLowest sets where the node's blocks begin, until reads tell where its state does.
func (n *Node) suggestLowest(height int64) {
	n.update(func(s *State) {
		if s.Lowest == 0 {
			s.Lowest = max(0, height)
		}
	})
}

// has says whether a node can be read at a height.
func (n *Node) has(ctx context.Context, c *Chain, height int64) (bool, error) {
	r, err := n.read(ctx, c, height)
	switch {
	case err != nil:
		return false, err
	case r.Outcome == Unknown:
		return false, errNoProbe
	default:
		return r.Outcome != Future, nil
	}
}

// read reads something cheap of a node, and learns from it.
func (n *Node) read(ctx context.Context, c *Chain, height int64) (Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, maxProof)
	defer cancel()
	epoch := c.Tip().Epoch
	r, err := n.Reader.Read(ctx, height)
	if err == nil {
		c.Learn(n, epoch, r)
	}
	return r, err
}

// Bounds of the judgement whether a node's headers are late.
const (
	leastDelays = 3  // headers, before any is judged
	mostOverdue = 10 // intervals: a chain that stands still for longer does so by itself
)

// delays are how long after their own time the headers of a node arrived. What is usual is
// the median of the last ones: an absent proposer makes some blocks late.
type delays struct {
	last           tip.Median
	at             time.Time     // when the newest came; zero: no other is expected
	interval       time.Duration // between blocks, then
	punctual, late int64
}

// arrive takes in a header's delay.
func (d *delays) arrive(delay time.Duration, now time.Time, interval time.Duration) {
	late := d.overdue(now)
	if d.last.Count >= leastDelays && delay > d.last.Value()+interval/2 {
		late = max(late, 1)
	}
	if d.late += late; late == 0 {
		d.punctual++
	}
	d.last.Add(delay)
	d.at, d.interval = now, interval
}

// overdue is for how many intervals the next header should have come, from half a one on.
func (d *delays) overdue(now time.Time) int64 {
	if d.at.IsZero() || d.last.Count < leastDelays {
		return 0
	}
	return min(max(int64((now.Sub(d.at)-d.interval/2)/d.interval), 0), mostOverdue)
}

// Headers counts the headers that the node streamed as close behind their own time as
// usual, and headers that came later or are overdue. Neither count falls.
func (n *Node) Headers() (punctual, late int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.delays.punctual, n.delays.late + n.delays.overdue(time.Now())
}

// arrived notes a header that the node streamed.
func (n *Node) arrived(header time.Time, interval time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.delays.arrive(now.Sub(header), now, interval)
}

// unsubscribed notes that no header is expected any more.
func (n *Node) unsubscribed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state.Connected = false
	n.state.Lost++
	n.delays.late += n.delays.overdue(time.Now())
	n.delays.at = time.Time{}
}
