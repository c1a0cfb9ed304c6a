package heights

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// Options of a Chain. All but ChainID and Ledger are required.
type Options struct {
	ChainID       string        // the chain every node must serve; "" takes the first one seen
	Interval      time.Duration // between blocks until it has been learned
	RollbackAfter time.Duration // for so long all sources name lower blocks before the chain is taken for set back
	Ledger        Ledger        // nil: no other replica is to agree
	Logger        *slog.Logger

	OnEpoch     func(chainID string, epoch int64) // a first or another epoch is in force; called before the tip falls
	Turned      func()                            // another epoch was counted
	Reconnected func(node string)                 // a subscription after the first was made
}

// A Chain is the newest block over all nodes, and how it is known.
type Chain struct {
	o         Options
	tip       *tip.Tracker
	moved     broadcast // the tip, or what is known of a node
	followers []*follower
	rest      []*restFollower
	claimants []*claimant   // of both
	doubts    chan struct{} // a request could not be answered at the tip

	anchors anchors
	epochs  sync.Mutex // held while an epoch begins
	told    bool       // OnEpoch was called; guarded by epochs

	mu      sync.Mutex
	chainID string
}

// New makes a chain of its nodes, of which nothing is known yet. It neither connects nor starts anything.
func New(o Options, nodes ...*Node) *Chain {
	c := &Chain{o: o, chainID: o.ChainID, tip: tip.New(2*len(nodes), o.Interval, o.RollbackAfter), doubts: make(chan struct{}, 1)}
	for _, n := range nodes {
		n.state.Unseen = n.Comet != nil
		c.rest = append(c.rest, &restFollower{claimant: c.newClaimant(n)})
		if n.Comet != nil {
			c.followers = append(c.followers, &follower{claimant: c.newClaimant(n)})
		}
	}
	return c
}

func (c *Chain) newClaimant(n *Node) *claimant {
	s := &claimant{chain: c, node: n, source: len(c.claimants), sought: make(chan struct{}, 1)}
	c.claimants = append(c.claimants, s)
	return s
}

// Run follows all nodes until ctx ends, and waits for all it started.
func (c *Chain) Run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	for _, f := range c.followers {
		workers.Go(func() { f.run(ctx) })
	}
	for _, f := range c.rest {
		workers.Go(func() { f.run(ctx) })
	}
	workers.Go(func() { c.verify(ctx) })
	workers.Go(func() { c.watchFall(ctx) })
	workers.Go(func() { c.watchLate(ctx) })
	workers.Go(func() { c.watchDoubt(ctx) })
	workers.Go(func() { c.agree(ctx) })
}

// guard calls work, which handles what nodes or replicas said. A panic drops that.
func (c *Chain) guard(work func()) {
	_ = upstream.Guard(c.o.Logger, "heights", func() error {
		work()
		return nil
	})
}

// ChainID is the chain's name, "" while none is known. It does not change then.
func (c *Chain) ChainID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chainID
}

// admit lets a node of our chain in and keeps any other out, telling once
// per change. The first chain that is seen is ours if none was configured.
func (c *Chain) admit(n *Node, chainID string) bool {
	c.mu.Lock()
	if c.chainID == "" {
		c.chainID = chainID
	}
	ours := c.chainID == chainID
	c.mu.Unlock()
	before := n.Look()
	if before.ChainID == chainID && before.Refused == !ours {
		return ours
	}
	n.update(func(v *State) {
		v.ChainID, v.Refused = chainID, !ours
		if !ours {
			v.Height = 0
		}
	})
	switch {
	case !ours:
		n.Logger.Error("node serves another chain, not using it", "chain", chainID, "want", c.ChainID())
	case before.Refused:
		n.Logger.Info("node serves the configured chain again", "chain", chainID)
	}
	return ours
}

// Tip is the newest block over all nodes. It takes no lock and does not allocate.
func (c *Chain) Tip() tip.Tip { return c.tip.Read() }

// Moved is closed when the tip moves, or what is known of a node. Take it before looking.
func (c *Chain) Moved() <-chan struct{} { return c.moved.next() }

// Raise lifts the tip to a height that another replica has read at, as far as
// the pace allows and for as long as a source here may take to confirm it.
func (c *Chain) Raise(height int64) {
	if c.tip.Raise(height) {
		c.moved.notify()
	}
}

// contradict marks the tip as unconfirmed until settle is called.
func (c *Chain) contradict() (settle func()) {
	settled := c.tip.Contradict()
	c.moved.notify()
	return func() { settled(); c.moved.notify() }
}

// brief is how long the tip may be unconfirmed before the log says so. One question to a node mostly takes less.
const brief = 500 * time.Millisecond

// watchDoubt logs when the tip is unconfirmed, and when it no longer is.
func (c *Chain) watchDoubt(ctx context.Context) {
	var since time.Time // since when it is; zero while it is not
	told := false
	for {
		moved, t := c.moved.next(), c.Tip()
		var due <-chan time.Time
		switch {
		case !t.Unconfirmed:
			if told {
				c.o.Logger.Info("the newest block is confirmed again", "tip", t.Height, "epoch", t.Epoch, "after", time.Since(since).Round(time.Millisecond).String())
			}
			since, told = time.Time{}, false
		case since.IsZero():
			since, due = time.Now(), time.After(brief)
		case !told && time.Since(since) >= brief:
			c.o.Logger.Warn("a node contradicts the newest block, marking responses as unconfirmed", "tip", t.Height)
			told = true
		case !told:
			due = time.After(brief - time.Since(since))
		}
		select {
		case <-moved:
		case <-due:
		case <-ctx.Done():
			return
		}
	}
}

// A broadcast wakes all goroutines that wait for something to move.
type broadcast struct {
	mu     sync.Mutex
	change chan struct{}
}

// next is closed by the next notify, or at the end of what begins next. Take it before looking.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.change == nil {
		b.change = make(chan struct{})
	}
	return b.change
}

func (b *broadcast) notify() { b.begin()() }

// begin returns what wakes the callers that wait by now.
func (b *broadcast) begin() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change := b.change
	b.change = nil
	return func() {
		if change != nil {
			close(change)
		}
	}
}
