package heights_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// Two nodes of five are on a fork, and have each block before most of the others.
func TestForkIsNotFollowedWhileOtherNodesAreAboutToHaveTheBlock(t *testing.T) {
	a, f, g, b, d := newFakeNode(990), newFakeNode(990), newFakeNode(990), newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		f.fork(0)
		g.fork(0)
		c.blocks(10)
		if c.epochs.Load() > 0 || c.known[1].State().Fork == 0 || c.known[2].State().Fork == 0 {
			t.Errorf("new epochs = %d, want 0, and the second and third node excluded\n%s", c.epochs.Load(), c.log)
		}
	}, a, f, g, b, d)
}

// Half of the nodes are on a fork.
func TestForkIsNotFollowedWhileOneOfTwoOtherNodesRestarts(t *testing.T) {
	a, b, f, g := newFakeNode(990), newFakeNode(990), newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		f.fork(0)
		g.fork(0)
		c.blocks(5)
		b.setDown(true)
		c.blocks(30)
		b.setDown(false)
		c.blocks(30)
		if c.epochs.Load() > 0 || c.known[2].State().Fork == 0 || c.known[3].State().Fork == 0 {
			t.Errorf("new epochs = %d, want 0, and the third and fourth node excluded\n%s", c.epochs.Load(), c.log)
		}
	}, a, b, f, g)
}

// A sharedLedger is the ledger of two replicas.
type sharedLedger struct {
	mu    sync.Mutex
	epoch int64
}

func (l *sharedLedger) Agreement(_ context.Context, _ string, epoch int64) (upstream.Agreement, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch = max(l.epoch, epoch)
	return upstream.Agreement{Epoch: l.epoch}, nil
}

func (l *sharedLedger) NextEpoch(_ context.Context, _ string, from, to int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch == from {
		l.epoch = to
	}
	return l.epoch, nil
}

// advance begins the next epoch, as another replica does.
func (l *sharedLedger) advance() (epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	return l.epoch
}

func (l *sharedLedger) AddAnchor(context.Context, string, int64, int64, string) error { return nil }

// The node on a fork has each block before the other nodes. The new epoch begins without hashes at the replica that adopts it.
func TestForkStaysExcludedInTheEpochOfAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, shared := new(logtest.Log), new(sharedLedger)
		nodes := []*fakeNode{newFakeNode(990), newFakeNode(990), newFakeNode(990)}
		for replica := range 2 {
			logger := slog.New(slog.NewTextHandler(log, nil)).With("replica", replica)
			c := heights.New(heights.Options{
				ChainID: "story-1", Interval: interval, RollbackAfter: rollback, Logger: logger, Ledger: shared,
				OnEpoch: func(string, int64) {}, EpochChanged: func() {}, Reconnected: func(string) {},
			})
			for _, n := range nodes {
				c.Add(&heights.Node{Reader: n, Comet: n, ReportsHeight: func() bool { return false }, Logger: logger})
			}
			run(t, c)
		}
		blocks := func(count int) {
			for range count {
				for _, n := range nodes {
					n.commit()
					synctest.Wait()
				}
				time.Sleep(interval)
			}
		}
		blocks(10)
		nodes[0].fork(0)
		blocks(20)
		start := shared.advance()
		blocks(60)
		if got := shared.advance() - 1; got != start {
			t.Errorf("epoch = %d, want %d\n%s", got, start, log)
		}
	})
}

// Three of five nodes hang, and each read waits 2s.
func TestNodesThatHangAreAwaitedTogether(t *testing.T) {
	ours, other := newFakeNode(990), newFakeNode(990)
	nodes := []*fakeNode{newFakeNode(990), newFakeNode(990), newFakeNode(990), ours, other}
	runChain(t, func(t *testing.T, c *followed) {
		for _, n := range nodes[:3] {
			n.change(func() { n.busy = true })
		}
		other.fork(0)
		ours.commit()
		synctest.Wait()
		other.commit()
		for took := 0 * interval; ; took += interval / 10 {
			if c.wait(interval / 10); c.known[4].State().Fork != 0 {
				break
			}
			if took > 3*interval {
				t.Fatalf("node is not excluded %s after it was on another fork\n%s", took, c.log)
			}
		}
	}, nodes...)
}
