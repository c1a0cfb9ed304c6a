package heights_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/heights"
	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/logtest"
)

const (
	interval = time.Second
	rollback = 10 * time.Second
)

// A fakeNode fakes CometBFT and the REST server of one node. Tests change its fields through change.
type fakeNode struct {
	mu          sync.Mutex
	height      int64                     // newest block that can be read
	low         int64                     // subtracted from the heights of /status and /abci_info
	lag         int64                     // subtracted from the heights of headers
	earliest    int64                     // oldest block in /status
	lie         int64                     // added to the heights of /status, /abci_info and headers
	hangs       bool                      // CometBFT accepts connections but does not respond
	busy        bool                      // the RPC server does not respond, but the WebSocket works
	catchingUp  bool                      // catching_up in /status
	silent      bool                      // the REST server does not respond
	refuses     func(height int64) bool   // existing heights whose reads are refused; nil means none
	latest      int64                     // newest block named by refusals; 0 means they say that the height is in the future
	hash        func(height int64) string // returns the hash of a block
	streamed    func(height int64) string // returns the hash of a block in headers; nil means hash
	old         time.Duration             // age of headers on arrival
	polled      bool                      // subscriptions fail
	chain       string                    // chain id that the REST server names; "" means none
	restOnly    bool                      // there is no CometBFT
	reports     bool                      // a read of the latest block has its height, to which lie is added
	hashless    bool                      // the REST server has no hashes
	hashReads   int                       // number of hash reads from the REST server
	sockets     []*socket
	reads       []read
	statusCalls int
	subscribed  []time.Time // times of subscriptions
}

type read struct {
	height int64
	at     time.Time
}

func newFakeNode(height int64) *fakeNode {
	return &fakeNode{height: height, hash: func(height int64) string { return fmt.Sprint("A", height) }}
}

func (n *fakeNode) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// setDown makes both servers stop responding, or respond again.
func (n *fakeNode) setDown(down bool) {
	n.change(func() { n.hangs, n.silent = down, down })
}

// fork removes the newest blocks of the node, and changes the hashes of all others.
func (n *fakeNode) fork(blocks int64) {
	n.change(func() {
		n.height, n.hash = n.height-blocks, func(height int64) string { return fmt.Sprint("F", height) }
	})
}

// commit makes a block and streams its header.
func (n *fakeNode) commit() {
	n.change(func() {
		n.height++
		if n.hangs {
			return
		}
		for _, s := range n.sockets {
			s.headers <- n.header(max(1, n.height+n.lie-n.lag))
		}
	})
}

func (n *fakeNode) header(height int64) (h comet.Header) {
	h.ChainID, h.Height, h.Time, h.Last.Hash = "story-1", height, time.Now().Add(-n.old), n.hash(height-1)
	if n.streamed != nil {
		h.Last.Hash = n.streamed(height - 1)
	}
	return h
}

// hang waits until the timeout and fails if CometBFT hangs.
func (n *fakeNode) hang(ctx context.Context, timeout time.Duration) error {
	n.mu.Lock()
	hangs := n.hangs || n.busy
	n.mu.Unlock()
	if !hangs {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(timeout):
	}
	return errors.New("timeout")
}

func (n *fakeNode) Status(ctx context.Context) (comet.Status, error) {
	if err := n.hang(ctx, time.Second); err != nil {
		return comet.Status{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.statusCalls++
	return comet.Status{ChainID: "story-1", Height: max(1, n.height+n.lie-n.low), Time: time.Now(), Earliest: n.earliest, CatchingUp: n.catchingUp}, nil
}

func (n *fakeNode) Committed(ctx context.Context) (int64, error) {
	err := n.hang(ctx, 2*time.Second)
	n.mu.Lock()
	defer n.mu.Unlock()
	return max(1, n.height+n.lie-n.low), err
}

func (n *fakeNode) Hash(ctx context.Context, height int64) (string, error) {
	if err := n.hang(ctx, 2*time.Second); err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if height >= n.height {
		return "", &comet.Refusal{Code: comet.InternalError, Data: "no such block"}
	}
	return n.hash(height), nil
}

func (n *fakeNode) Subscribe(ctx context.Context) (comet.Headers, error) {
	if err := n.hang(ctx, 2*time.Second); err != nil {
		return nil, err
	}
	n.change(func() { n.subscribed = append(n.subscribed, time.Now()) })
	if n.polled {
		return nil, errors.New("no subscriptions")
	}
	s := &socket{make(chan comet.Header, 1000)}
	n.change(func() { n.sockets = append(n.sockets, s) })
	return s, nil
}

type socket struct{ headers chan comet.Header }

func (s *socket) Next(ctx context.Context) (comet.Header, error) {
	select {
	case h := <-s.headers:
		return h, nil
	case <-ctx.Done():
		return comet.Header{}, ctx.Err()
	}
}

func (s *socket) Close() {}

// Read reads from the REST server.
func (n *fakeNode) Read(_ context.Context, height int64) (heights.Reading, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reads = append(n.reads, read{height, time.Now()})
	if n.silent {
		return heights.Reading{}, errors.New("timeout")
	}
	r := heights.Reading{Height: height}
	if height == 0 && n.reports {
		return heights.Reading{Height: n.height + n.lie}, nil
	}
	if height > n.height || n.refuses != nil && n.refuses(height) {
		r.Outcome = heights.Future
		if n.latest > 0 && (n.refuses == nil || n.refuses(height)) {
			r.Outcome, r.Latest = heights.Pruned, n.latest
		}
	}
	return r, nil
}

func (n *fakeNode) BlockHash(_ context.Context, height int64) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hashReads++
	if n.silent {
		return "", errors.New("timeout")
	}
	if n.hashless || height >= n.height {
		return "", heights.ErrNoHash
	}
	return n.hash(height), nil
}

func (n *fakeNode) ChainID(context.Context) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.silent {
		return "", errors.New("timeout")
	}
	return n.chain, nil
}

// readsSince returns the delays of the reads after t.
func (n *fakeNode) readsSince(t time.Time) (after []time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.reads {
		if r.at.After(t) {
			after = append(after, r.at.Sub(t))
		}
	}
	return after
}

// A followed chain is a Chain that runs with fake nodes.
type followed struct {
	*heights.Chain
	t      *testing.T
	nodes  []*fakeNode
	known  []*heights.Node
	epochs atomic.Int32 // number of epochs after the first
	log    *logtest.Log
}

// runChain runs a test in a synctest bubble with a chain that follows the nodes. The chain is at block 1000, which is
// proved.
func runChain(t *testing.T, test func(t *testing.T, c *followed), nodes ...*fakeNode) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &followed{t: t, nodes: nodes, log: new(logtest.Log)}
		logger := slog.New(slog.NewTextHandler(c.log, nil))
		var all []*heights.Node
		for i, n := range nodes {
			all = append(all, &heights.Node{Name: fmt.Sprint("node", i), Reader: n, ReportsHeight: func() bool { return n.reports }, Logger: logger})
			if !n.restOnly {
				all[i].Comet = n
			}
		}
		c.known = all
		c.Chain = heights.New(heights.Options{
			ChainID: "story-1", Interval: interval, RollbackAfter: rollback, Logger: logger,
			OnEpoch: func(string, int64) {}, EpochChanged: func() { c.epochs.Add(1) }, Reconnected: func(string) {},
		})
		for _, n := range all {
			c.Add(n)
		}
		run(t, c.Chain)
		time.Sleep(interval)
		c.blocks(10)
		c.RecordReading(all[0], 0, heights.Reading{Height: c.Tip().Height})
		test(t, c)
	})
}

// run runs a chain until the end of the test.
func run(t *testing.T, c *heights.Chain) {
	var runs sync.WaitGroup
	runs.Go(func() { c.Run(t.Context()) })
	t.Cleanup(runs.Wait)
}

func (c *followed) block() {
	for _, n := range c.nodes {
		n.commit()
		synctest.Wait() // the first node's headers arrive first
	}
	c.wait(interval)
}

// wait sleeps and waits until all goroutines are idle.
func (c *followed) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (c *followed) blocks(count int) {
	for range count {
		c.block()
	}
}

// current makes blocks and requires each to be the tip before the next one.
func (c *followed) current(blocks int) {
	c.t.Helper()
	for range blocks {
		c.block()
		if got, want := c.Tip(), c.nodes[0].newest(); got.Height != want || !got.Known || got.Epoch != 0 {
			c.t.Fatalf("tip = %+v, want known height %d of epoch 0\n%s", got, want, c.log)
		}
	}
}

func (n *fakeNode) newest() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.height
}
