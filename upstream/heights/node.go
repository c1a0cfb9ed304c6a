package heights

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// A cometClient calls a node's CometBFT. It is implemented by [comet.Client].
type cometClient interface {
	Status(ctx context.Context) (comet.Status, error)
	// Committed returns the newest height that can be read.
	Committed(ctx context.Context) (int64, error)
	// Hash returns the hash of a block that is not the newest.
	Hash(ctx context.Context, height int64) (string, error)
	Subscribe(ctx context.Context) (comet.Headers, error)
}

// A reader reads from a node's REST server.
type reader interface {
	// Read makes a cheap request at a height. 0 means the node's latest height.
	Read(ctx context.Context, height int64) (Reading, error)
	// BlockHash returns the hash in hex of a block that is not the newest, or "" if REST servers of the dialect have no
	// hashes. The error is ErrNoHash if the node responds without it.
	BlockHash(ctx context.Context, height int64) (string, error)
	// ChainID reads the chain's id. It returns "" if the server does not name it.
	ChainID(ctx context.Context) (string, error)
}

// ErrNoHash is the error of a node that responds without the hash of a block.
var ErrNoHash = errors.New("response contains no hash of the block")

// A Reading is what a response reveals about a node's blocks.
type Reading struct {
	Outcome Outcome
	Height  int64 // height of the request; 0 if unknown
	Latest  int64 // newest height named by a refusal; 0 if none
}

// Outcome is the outcome of a read at a height.
type Outcome int

// The outcomes.
const (
	Answered Outcome = iota // the node has the height
	Pruned                  // it no longer has it
	Future                  // it does not have it yet
	Unknown                 // the response does not show whether the node has the height
)

// A Node is one node of the chain with the state of its blocks.
type Node struct {
	Name          string
	Comet         cometClient // nil if only Reader provides heights
	Reader        reader
	ReportsHeight func() bool               // reports whether a read at the latest height reveals this height
	Follow        func(ctx context.Context) // called while the chain follows the node, and returns when ctx ends; may be nil
	Logger        *slog.Logger

	mu     sync.Mutex
	state  State
	delays delays
}

// State describes a node and its blocks.
type State struct {
	Unseen     bool      // CometBFT has not been called yet
	ChainID    string    // from the node; "" if unknown
	Refused    bool      // the node serves another chain
	Fork       int64     // a block that differs from the chain's, as the node is on another fork; 0 if it is not
	Height     int64     // newest committed block; 0 if unknown
	Lowest     int64     // presumed oldest readable height, never above the tip or a height that was read; 0 if unknown
	BlockTime  time.Time // of the newest header; zero if unknown
	Heard      time.Time // when a claim of one of its sources was last accepted
	Spoke      time.Time // when one of its sources last made a claim, or when the chain began to follow the node
	CatchingUp bool      // the node is behind its peers
	Connected  bool      // block headers are streamed
	Lost       int64     // number of ended subscriptions to headers; the node may have been restarted each time
	TxIndex    string    // on or off: whether CometBFT indexes transactions; "" if unknown
	Version    string    // of CometBFT; "" if unknown
	NoEvents   error     // why CometBFT provides no usable events; nil if it does, or before it has responded
	Distrusted bool      // claims of CometBFT or of the REST server are ignored until a read proves one
	Late       bool      // there are blocks that CometBFT has not announced
	CometDown  bool      // CometBFT does not respond
	CometErr   error     // current error of CometBFT
}

// Foreign reports whether the node serves another chain or fork.
func (s *State) Foreign() bool { return s.Refused || s.Fork != 0 }

// Current reports whether a claim of the node was accepted recently.
func (s *State) Current(interval time.Duration) bool {
	return time.Since(s.Heard) <= tip.ClaimLifetime(interval)
}

// State returns the node's state.
func (n *Node) State() State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

func (n *Node) update(change func(*State)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.state)
}

// ForgetLowest resets Lowest. It is called when the node may have been restarted with other blocks.
func (n *Node) ForgetLowest() { n.update(func(s *State) { s.Lowest = 0 }) }

// has reports whether the node has the block of a height, or had it before it pruned it.
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

// read makes a cheap request at a height and learns from the response, unless the height is only the one that the node reports.
func (n *Node) read(ctx context.Context, c *Chain, height int64) (Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	epoch := c.Tip().Epoch
	r, err := n.Reader.Read(ctx, height)
	if err == nil && height > 0 {
		c.RecordReading(n, epoch, r)
	}
	return r, err
}

// Limits for deciding whether a node's headers are late.
const (
	minDelays  = 3  // number of headers before any counts as late
	maxOverdue = 10 // intervals; after a longer time the chain is taken to stand still
)

// delays records the time between a header's own time and its arrival. The usual delay is the median of the
// latest ones, because an absent proposer makes some blocks late.
type delays struct {
	last           tip.Median
	at             time.Time     // arrival of the newest header; zero if no other is expected
	interval       time.Duration // between blocks at that time
	punctual, late int64
}

// overdue returns the number of intervals by which the next header is late. Half an interval is tolerated.
func (d *delays) overdue(now time.Time) int64 {
	if d.at.IsZero() || d.last.Count < minDelays {
		return 0
	}
	return min(max(int64((now.Sub(d.at)-d.interval/2)/d.interval), 0), maxOverdue)
}

// Headers returns the number of headers that arrived with the usual delay, and of those that arrived later or
// are overdue. The counts never decrease.
func (n *Node) Headers() (punctual, late int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.delays.punctual, n.delays.late + n.delays.overdue(time.Now())
}

// recordHeader records the arrival of a streamed header.
func (n *Node) recordHeader(header time.Time, interval time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d, now := &n.delays, time.Now()
	delay, late := now.Sub(header), d.overdue(now)
	if d.last.Count >= minDelays && delay > d.last.Value()+interval/2 {
		late = max(late, 1)
	}
	d.late += late
	if late == 0 {
		d.punctual++
	}
	d.last.Add(delay)
	d.at, d.interval = now, interval
}
