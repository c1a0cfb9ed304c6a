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

// Options of a Chain. All are required except ChainID and Ledger.
type Options struct {
	ChainID       string        // the chain every node must serve; "" accepts the chain of the first node
	Interval      time.Duration // assumed time between blocks until it has been learned
	RollbackAfter time.Duration // how long all sources must claim lower blocks before the chain counts as rolled back
	Ledger        Ledger        // nil if there are no other replicas
	Logger        *slog.Logger

	OnEpoch      func(chainID string, epoch int64) // called when an epoch begins, before the tip falls
	EpochChanged func()                            // called after an epoch other than the first has begun
	Reconnected  func(node string)                 // called for every subscription to a node except the first
}

// A Chain tracks the newest block over all nodes.
type Chain struct {
	o      Options
	tip    *tip.Tracker
	moved  waker         // the tip or a node's state has changed
	doubts chan struct{} // receives a message when a node could not answer a request at or below the tip

	members  atomic.Pointer[[]*member]
	changing sync.Mutex      // guards writes of members, and running
	running  context.Context //nolint:containedctx // of Run; nil while it does not run

	hashes  hashTable
	epochs  sync.Mutex // held while an epoch begins
	entered bool       // OnEpoch was called; guarded by epochs

	mu      sync.Mutex
	chainID string
}

// New returns a chain without nodes. It neither connects nor starts a goroutine.
func New(o Options) *Chain {
	c := &Chain{o: o, chainID: o.ChainID, tip: tip.New(o.Interval, o.RollbackAfter), doubts: make(chan struct{}, 1)}
	c.members.Store(&[]*member{})
	return c
}

func (c *Chain) newSource(n *Node) *heightSource {
	return &heightSource{chain: c, node: n, source: c.tip.Add(), pollNow: make(chan struct{}, 1)}
}

// A member is a node with its followers.
type member struct {
	node    *Node
	rest    *restFollower
	rpc     *rpcFollower    // nil if the node has no CometBFT URL
	sources []*heightSource // of both followers

	end   context.CancelFunc // stops the followers; nil before follow
	works sync.WaitGroup
}

// Add adds a node in an unknown state. While Run runs, it starts to follow the node.
func (c *Chain) Add(n *Node) {
	n.state.Unseen, n.state.Spoke = n.Comet != nil, time.Now()
	m := &member{node: n, rest: &restFollower{heightSource: c.newSource(n)}}
	m.sources = append(m.sources, m.rest.heightSource)
	if n.Comet != nil {
		m.rpc = &rpcFollower{heightSource: c.newSource(n), up: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
		m.sources = append(m.sources, m.rpc.heightSource)
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	all := append(slices.Clone(c.all()), m)
	c.members.Store(&all)
	if c.running != nil {
		m.follow(c.running)
	}
}

// Remove stops the followers of a node that Add added, and forgets its claims.
func (c *Chain) Remove(n *Node) {
	c.changing.Lock()
	defer c.changing.Unlock()
	i := slices.IndexFunc(c.all(), func(m *member) bool { return m.node == n })
	m := c.all()[i]
	rest := slices.Delete(slices.Clone(c.all()), i, i+1)
	c.members.Store(&rest)
	m.stop()
	if m.rpc != nil {
		m.rpc.endContradiction() // the stopped follower no longer does
	}
	for _, s := range m.sources {
		c.tip.Remove(s.source)
	}
	c.moved.notify()
}

func (c *Chain) all() []*member { return *c.members.Load() }

// follow starts the node's followers, which run until ctx ends or stop is called.
func (m *member) follow(ctx context.Context) {
	ctx, m.end = context.WithCancel(ctx)
	m.rest.nextPoll = time.NewTimer(0)
	m.works.Go(func() { m.rest.keepPolling(ctx, m.rest.poll) })
	if m.rpc != nil {
		m.works.Go(func() { m.rpc.run(ctx) })
	}
	if follow := m.node.Follow; follow != nil {
		m.works.Go(func() { follow(ctx) })
	}
}

// stop stops the followers and waits for them.
func (m *member) stop() {
	if m.end != nil {
		m.end()
		m.works.Wait()
	}
}

func (c *Chain) sources() (all []*heightSource) {
	for _, m := range c.all() {
		all = append(all, m.sources...)
	}
	return all
}

// Run follows all nodes until ctx ends, and waits for its goroutines.
func (c *Chain) Run(ctx context.Context) {
	c.changing.Lock()
	c.running = ctx
	for _, m := range c.all() {
		m.follow(ctx)
	}
	c.changing.Unlock()
	var workers sync.WaitGroup
	workers.Go(func() { c.verify(ctx) })
	workers.Go(func() { c.watchFall(ctx) })
	workers.Go(func() { c.watchLate(ctx) })
	workers.Go(func() { c.agree(ctx) })
	workers.Wait()
	c.changing.Lock()
	defer c.changing.Unlock()
	c.running = nil
	for _, m := range c.all() {
		m.stop()
	}
}

// guard calls work, which handles input from nodes or replicas. If it panics, the input is dropped.
func (c *Chain) guard(work func()) { upstream.GuardInput(c.o.Logger, "heights", work) }

// ChainID returns the chain's id, or "" while it is unknown. A known id does not change.
func (c *Chain) ChainID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chainID
}

// admit reports whether a node serves the chain, and refuses the node otherwise. It logs each change once.
// If no chain is configured, the first node decides.
func (c *Chain) admit(n *Node, chainID string) bool {
	c.mu.Lock()
	if c.chainID == "" {
		c.chainID = chainID
	}
	admitted := c.chainID == chainID
	c.mu.Unlock()
	before := n.State()
	if before.ChainID == chainID && before.Refused == !admitted {
		return admitted
	}
	n.update(func(v *State) {
		v.ChainID, v.Refused = chainID, !admitted
		if !admitted {
			v.Height = 0
		}
	})
	switch {
	case !admitted:
		n.Logger.Error("node serves another chain, not using it", "chain", chainID, "want", c.ChainID())
	case before.Refused:
		n.Logger.Info("node serves the configured chain again", "chain", chainID)
	}
	return admitted
}

// Tip returns the newest block over all nodes. It takes no lock and does not allocate.
func (c *Chain) Tip() tip.Tip { return c.tip.Read() }

// Look returns the newest block, the id of the chain, and a channel that is closed when one of them, or a node's state, changes.
func (c *Chain) Look() (newest tip.Tip, chainID string, moved <-chan struct{}) {
	moved = c.Moved()
	return c.Tip(), c.ChainID(), moved
}

// Proved returns the highest block of this epoch that a node has read, or 0.
func (c *Chain) Proved() int64 { return c.tip.Proved() }

// Moved returns a channel that is closed when the tip or a node's state changes. Call it before reading them.
func (c *Chain) Moved() <-chan struct{} { return c.moved.next() }

// Raise raises the tip to a height at which another replica has read. The pace of the chain limits the
// height, and a source of this process must confirm it in time.
func (c *Chain) Raise(height int64) {
	if c.tip.Raise(height) {
		c.moved.notify()
	}
}

// contradict marks the tip as unconfirmed until the caller calls settle.
func (c *Chain) contradict() (settle func()) {
	settled := c.tip.Contradict()
	c.moved.notify()
	return func() { settled(); c.moved.notify() }
}

// A waker wakes all waiting goroutines.
type waker struct {
	mu     sync.Mutex
	change chan struct{}
}

// next returns a channel that is closed by the next notify, or by the function that the next take returns.
func (w *waker) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.change == nil {
		w.change = make(chan struct{})
	}
	return w.change
}

func (w *waker) notify() { w.take()() }

// take returns a function that wakes the goroutines that wait now, and not later ones.
func (w *waker) take() (wake func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change := w.change
	w.change = nil
	return func() {
		if change != nil {
			close(change)
		}
	}
}
