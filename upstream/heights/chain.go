package heights

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
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
	o      Options
	tip    *tip.Tracker
	moved  broadcast     // the tip, or what is known of a node
	doubts chan struct{} // a request could not be answered at the tip

	members  atomic.Pointer[[]*member]
	changing sync.Mutex      // of members and running
	running  context.Context //nolint:containedctx // of Run; nil while it does not run

	anchors anchors
	epochs  sync.Mutex // held while an epoch begins
	told    bool       // OnEpoch was called; guarded by epochs

	mu      sync.Mutex
	chainID string
}

// New makes a chain of its nodes, of which nothing is known yet. It neither connects nor starts anything.
func New(o Options, nodes ...*Node) *Chain {
	c := &Chain{o: o, chainID: o.ChainID, tip: tip.New(0, o.Interval, o.RollbackAfter), doubts: make(chan struct{}, 1)}
	c.members.Store(&[]*member{})
	for _, n := range nodes {
		c.Add(n)
	}
	return c
}

func (c *Chain) newClaimant(n *Node) *claimant {
	return &claimant{chain: c, node: n, source: c.tip.Add(), sought: make(chan struct{}, 1)}
}

// A member is a node with its followers.
type member struct {
	rest *restFollower
	rpc  *follower // nil: the node has no CometBFT

	end   context.CancelFunc // ends the followers; nil before they have begun
	works sync.WaitGroup
}

// Add adds a node, of which nothing is known yet. While Run runs, it follows the node from now on.
func (c *Chain) Add(n *Node) {
	n.state.Unseen = n.Comet != nil
	m := &member{rest: &restFollower{claimant: c.newClaimant(n)}}
	if n.Comet != nil {
		m.rpc = &follower{claimant: c.newClaimant(n)}
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	all := append(slices.Clone(c.all()), m)
	c.members.Store(&all)
	if c.running != nil {
		m.follow(c.running)
	}
}

// Remove ends what follows a node, and forgets what the node has claimed.
func (c *Chain) Remove(n *Node) {
	c.changing.Lock()
	defer c.changing.Unlock()
	i := slices.IndexFunc(c.all(), func(m *member) bool { return m.rest.node == n })
	if i < 0 {
		return
	}
	m := c.all()[i]
	rest := slices.Delete(slices.Clone(c.all()), i, i+1)
	c.members.Store(&rest)
	m.stop()
	if m.rpc != nil && m.rpc.settle != nil {
		m.rpc.settle() // nobody else finds out whether its last header was right
	}
	for _, s := range m.claimants() {
		c.tip.Remove(s.source)
	}
	c.moved.notify()
}

func (c *Chain) all() []*member { return *c.members.Load() }

// follow begins to follow the node until ctx ends.
func (m *member) follow(ctx context.Context) {
	ctx, m.end = context.WithCancel(ctx)
	m.works.Go(func() { m.rest.run(ctx) })
	if m.rpc != nil {
		m.works.Go(func() { m.rpc.run(ctx) })
	}
}

// stop ends to follow the node.
func (m *member) stop() {
	if m.end != nil {
		m.end()
		m.works.Wait()
	}
}

func (m *member) claimants() []*claimant {
	if m.rpc == nil {
		return []*claimant{m.rest.claimant}
	}
	return []*claimant{m.rest.claimant, m.rpc.claimant}
}

// claimants returns the sources of all nodes.
func (c *Chain) claimants() (all []*claimant) {
	for _, m := range c.all() {
		all = append(all, m.claimants()...)
	}
	return all
}

// startAll begins to follow all nodes, and from now on those that are added.
func (c *Chain) startAll(ctx context.Context) {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.running = ctx
	for _, m := range c.all() {
		m.follow(ctx)
	}
}

// stopAll ends to follow all nodes.
func (c *Chain) stopAll() {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.running = nil
	for _, m := range c.all() {
		m.stop()
	}
}

// Run follows all nodes until ctx ends, and waits for all it started.
func (c *Chain) Run(ctx context.Context) {
	var workers sync.WaitGroup
	defer func() {
		workers.Wait()
		c.stopAll()
	}()
	c.startAll(ctx)
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
