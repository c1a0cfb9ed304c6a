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

// A fakeNode is CometBFT and the REST server of one node. Its fields change through
// change.
type fakeNode struct {
	mu         sync.Mutex
	height     int64                     // newest block that can be read
	low        int64                     // what /status and /abci_info are below it
	lag        int64                     // what headers are below it
	earliest   int64                     // oldest block, as /status says
	lie        int64                     // what /status, /abci_info and headers are above it
	hangs      bool                      // CometBFT accepts and does not answer
	busy       bool                      // its RPC server does not answer, and its sockets go on
	catchingUp bool                      // CometBFT says so
	silent     bool                      // the REST server does not answer
	refuses    func(height int64) bool   // reads that are refused although the block is there; nil: none
	latest     int64                     // what refusals name as the newest block; 0: that the height is in the future
	hash       func(height int64) string // of a block
	old        time.Duration             // what headers are when they come
	polled     bool                      // there are no headers
	alone      bool                      // there is no CometBFT
	unnamed    bool                      // the REST server tells no hash
	named      int                       // times that the REST server was asked for a hash
	sockets    []*socket
	reads      []read
	asked      int         // for /status
	tries      []time.Time // subscriptions
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

// commit makes a block, and streams its header.
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
	return h
}

// answers waits where CometBFT hangs, as long as its client does.
func (n *fakeNode) answers(ctx context.Context, patience time.Duration) error {
	n.mu.Lock()
	hangs := n.hangs || n.busy
	n.mu.Unlock()
	if !hangs {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(patience):
	}
	return errors.New("it did not answer in time")
}

func (n *fakeNode) Status(ctx context.Context) (comet.Status, error) {
	if err := n.answers(ctx, time.Second); err != nil {
		return comet.Status{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	return comet.Status{ChainID: "story-1", Height: max(1, n.height+n.lie-n.low), Time: time.Now(), Earliest: n.earliest, CatchingUp: n.catchingUp}, nil
}

func (n *fakeNode) Committed(ctx context.Context) (int64, error) {
	err := n.answers(ctx, 2*time.Second)
	n.mu.Lock()
	defer n.mu.Unlock()
	return max(1, n.height+n.lie-n.low), err
}

func (n *fakeNode) Hash(ctx context.Context, height int64) (string, error) {
	if err := n.answers(ctx, 2*time.Second); err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if height >= n.height {
		return "", errors.New("no such block")
	}
	return n.hash(height), nil
}

func (n *fakeNode) Subscribe(ctx context.Context) (comet.Headers, error) {
	if err := n.answers(ctx, 2*time.Second); err != nil {
		return nil, err
	}
	n.change(func() { n.tries = append(n.tries, time.Now()) })
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

// Read is a read of the REST server.
func (n *fakeNode) Read(_ context.Context, height int64) (heights.Reading, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reads = append(n.reads, read{height, time.Now()})
	if n.silent {
		return heights.Reading{}, errors.New("it did not answer in time")
	}
	r := heights.Reading{Height: height}
	if height > n.height || n.refuses != nil && n.refuses(height) {
		r.Outcome = heights.Future
		if n.latest > 0 {
			r.Outcome, r.Latest = heights.Pruned, n.latest
		}
	}
	return r, nil
}

func (n *fakeNode) BlockHash(_ context.Context, height int64) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.named++
	if n.silent || n.unnamed || height >= n.height {
		return "", errors.New("no such block")
	}
	return n.hash(height), nil
}

// readsSince are the reads since a time, of which it forgets the earlier ones.
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

// A followed chain is one that the test makes the blocks of.
type followed struct {
	*heights.Chain
	t      *testing.T
	nodes  []*fakeNode
	known  []*heights.Node
	epochs atomic.Int32 // that were counted
	log    *logtest.Log
}

// following follows the nodes in a bubble, from when a few blocks were made, until
// the test has ended. Block 1000 was read at.
func following(t *testing.T, test func(t *testing.T, c *followed), nodes ...*fakeNode) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &followed{t: t, nodes: nodes, log: new(logtest.Log)}
		logger := slog.New(slog.NewTextHandler(c.log, nil))
		var all []*heights.Node
		for i, n := range nodes {
			all = append(all, &heights.Node{Name: fmt.Sprint("node", i), Reader: n, Tells: func() bool { return false }, Logger: logger})
			if !n.alone {
				all[i].Comet = n
			}
		}
		c.known = all
		c.Chain = heights.New(heights.Options{
			ChainID: "story-1", Interval: interval, RollbackAfter: rollback, Logger: logger,
			OnEpoch: func(string, int64) {}, Turned: func() { c.epochs.Add(1) }, Reconnected: func(string) {},
		}, all...)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() { defer close(ended); c.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		time.Sleep(interval)
		c.blocks(10)
		c.Learn(all[0], 0, heights.Reading{Height: c.Tip().Height})
		test(t, c)
	})
}

// block makes a block, and waits almost until the next one.
func (c *followed) block() {
	for _, n := range c.nodes {
		n.commit()
		synctest.Wait() // the first node's headers come first
	}
	c.wait(interval)
}

// wait lets time pass, and what comes of it happen.
func (c *followed) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (c *followed) blocks(count int) {
	for range count {
		c.block()
	}
}

// current makes blocks, and wants each to be the tip before the next one comes.
func (c *followed) current(blocks int) {
	c.t.Helper()
	for range blocks {
		c.block()
		if got, want := c.Tip(), c.nodes[0].newest(); got.Height != want || !got.Known || got.Epoch != 0 {
			c.t.Fatalf("tip %+v, want %d of the first epoch\n%s", got, want, c.log)
		}
	}
}

func (n *fakeNode) newest() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.height
}
