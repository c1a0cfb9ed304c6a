package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A memoryLedger is a Ledger of one process.
type memoryLedger struct {
	mu        sync.Mutex
	down      bool
	refusals  int // number of calls while it was down
	agreed    upstream.Agreement
	confirmed time.Time
}

func (l *memoryLedger) do(f func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		l.refusals++
		return errors.New("down")
	}
	f()
	return nil
}

func (l *memoryLedger) Agreement(_ context.Context, _ string, epoch int64) (a upstream.Agreement, err error) {
	err = l.do(func() {
		l.raise(epoch)
		a = l.agreed
		a.Anchors, a.SinceConfirmed = maps.Clone(a.Anchors), time.Since(l.confirmed)
	})
	return a, err
}

func (l *memoryLedger) raise(epoch int64) {
	if epoch > l.agreed.Epoch {
		l.agreed = upstream.Agreement{Epoch: epoch}
	}
}

func (l *memoryLedger) NextEpoch(_ context.Context, _ string, from, to int64) (epoch int64, err error) {
	err = l.do(func() {
		if l.agreed.Epoch <= from {
			l.raise(to)
		}
		epoch = l.agreed.Epoch
	})
	return epoch, err
}

func (l *memoryLedger) AddAnchor(_ context.Context, _ string, epoch, height int64, hash string) error {
	return l.do(func() {
		if epoch != l.agreed.Epoch || slices.ContainsFunc(slices.Collect(maps.Keys(l.agreed.Anchors)), func(other int64) bool { return other > height }) {
			return
		}
		if l.agreed.Anchors == nil {
			l.agreed.Anchors = map[int64]string{}
		}
		l.agreed.Anchors[height], l.confirmed = hash, time.Now()
	})
}

// runWithLedger runs a pool that agrees with the other replicas of a ledger.
func runWithLedger(t *testing.T, l *memoryLedger, nodes ...*fakeNode) *Pool {
	t.Helper()
	return run(t, Options{Settings: Settings{RollbackAfter: 300 * time.Millisecond}, Ledger: l}, nodes...)
}

// ledgerOfEarlierReplica returns the ledger of a replica that has stopped at block 100.
func ledgerOfEarlierReplica(t *testing.T) *memoryLedger {
	t.Helper()
	l := new(memoryLedger)
	n := newFakeNode(t, 99)
	p := runWithLedger(t, l, n)
	expect.Eventually(t, "the subscription", connected(p))
	n.commit(100)
	expect.Eventually(t, "an anchor", func() bool {
		a, _ := l.Agreement(t.Context(), "", 0)
		return a.Anchors[99] != ""
	})
	_ = p.Close()
	n.stop()
	return l
}

func epochOf(t *testing.T, l *memoryLedger) int64 {
	t.Helper()
	a := expect.Value(l.Agreement(t.Context(), "", 0))(t)
	return a.Epoch
}

func TestReplicasAgreeOnAnEpoch(t *testing.T) {
	t.Parallel()
	l := new(memoryLedger)
	n := newFakeNode(t, 1000)
	a, b := runWithLedger(t, l, n), runWithLedger(t, l, n)
	mustFetch(t, a, Request{Height: AtTip}) // b has read nothing
	n.stop()
	n.height = 950
	n.start(n.address)
	expect.Eventually(t, "one new epoch of both replicas", func() bool { return a.Tip().Epoch > 0 && a.Tip().Epoch == b.Tip().Epoch })
	waitForClaims(t, time.Second, a, b)
	if a.Tip().Epoch != epochOf(t, l) || b.Tip().Epoch != epochOf(t, l) {
		t.Errorf("epochs %d and %d, want the agreed %d", a.Tip().Epoch, b.Tip().Epoch, epochOf(t, l))
	}
}

func TestStartingReplicaDetectsAnotherChain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		node func(*fakeNode)
		same bool
	}{
		{"same chain", func(n *fakeNode) { n.height = 120 }, true},
		{"same chain, one block behind", func(n *fakeNode) { n.height = 100 }, true},
		{"reset chain, lower", func(n *fakeNode) { n.height, n.forkedAt = 50, 1 }, false},
		{"reset chain, higher", func(n *fakeNode) { n.height, n.forkedAt = 120, 1 }, false},
		{"node that catches up", func(n *fakeNode) { n.height, n.catchingUp = 50, true }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgerOfEarlierReplica(t)
			lost := l.agreed.Anchors[99]
			n := newFakeNode(t, 1)
			tt.node(n)
			p := runWithLedger(t, l, n)
			if !tt.same {
				expect.Eventually(t, "another epoch", func() bool { return p.Tip().Epoch > 0 && epochOf(t, l) == p.Tip().Epoch })
				if n.height < 99 {
					expect.Eventually(t, "the block of the other replica to be replaced", func() bool { return p.Replaced(99, lost) })
				}
				return
			}
			waitForClaims(t, time.Second, p)
			if p.Tip().Epoch != 0 || epochOf(t, l) != 0 {
				t.Errorf("epoch %d, agreed on %d, want 0", p.Tip().Epoch, epochOf(t, l))
			}
		})
	}
}

// A forger is a ledger in which every epoch begins with a hash of another chain.
type forger struct{ memoryLedger }

func (f *forger) Agreement(ctx context.Context, chainID string, epoch int64) (upstream.Agreement, error) {
	a, err := f.memoryLedger.Agreement(ctx, chainID, epoch)
	a.Anchors = map[int64]string{99: strings.Repeat("AB", 32)}
	return a, err
}

func TestForgedAnchorsBeginOneEpochPerInterval(t *testing.T) {
	t.Parallel()
	o := Options{Settings: Settings{RollbackAfter: 3 * time.Second}, Ledger: new(forger)} // the pool reads the ledger each second
	p := run(t, o, newFakeNode(t, 120))
	expect.Eventually(t, "a new epoch", func() bool { return p.Tip().Epoch > 0 })
	first := p.Tip().Epoch
	waitForClaims(t, o.RollbackAfter/2, p)
	if now := p.Tip().Epoch; now != first {
		t.Errorf("epoch = %d, want %d as before", now, first)
	}
}

func TestOnEpochWaitsForTheLedger(t *testing.T) {
	t.Parallel()
	l := &memoryLedger{down: true, agreed: upstream.Agreement{Epoch: 5}}
	n := newFakeNode(t, 100)
	notified := make(chan int64, 10)
	p := run(t, Options{Settings: Settings{RollbackAfter: 300 * time.Millisecond}, Ledger: l, OnEpoch: func(_ string, epoch int64) { notified <- epoch }}, n)
	wantTip(t, p, 100)
	expect.Eventually(t, "three reads of the ledger", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.refusals > 3
	})
	if len(notified) > 0 {
		t.Errorf("notified of epoch %d, want nothing", <-notified)
	}
	l.mu.Lock()
	l.down = false
	l.mu.Unlock()
	expect.Equal(t, <-notified, 5, "epoch of OnEpoch")
}
