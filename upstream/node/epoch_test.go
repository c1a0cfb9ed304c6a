package node

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// A memoryLedger is a Ledger of one process.
type memoryLedger struct {
	mu        sync.Mutex
	down      bool
	refusals  int // while it was down
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
		a.Anchors, a.Confirmed = maps.Clone(a.Anchors), time.Since(l.confirmed)
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

// sharing runs a pool that agrees with others.
func sharing(t *testing.T, l *memoryLedger, nodes ...*fakeNode) *Pool {
	t.Helper()
	return run(t, Options{Ledger: l, RollbackAfter: 300 * time.Millisecond}, nodes...)
}

// anchored is a ledger that a replica has left behind, after block 100.
func anchored(t *testing.T) *memoryLedger {
	t.Helper()
	l := new(memoryLedger)
	n := newFakeNode(t, 99)
	p := sharing(t, l, n)
	eventually(t, "the subscription", connected(p))
	n.commit(100)
	eventually(t, "an anchor", func() bool {
		a, _ := l.Agreement(t.Context(), "", 0)
		return a.Anchors[99] != ""
	})
	_ = p.Close()
	n.stop()
	return l
}

func epochOf(t *testing.T, l *memoryLedger) int64 {
	t.Helper()
	a, err := l.Agreement(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return a.Epoch
}

func TestChangedBlockHashBeginsAnEpoch(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{RollbackAfter: time.Hour}, n)
	eventually(t, "the subscription", connected(p))
	for height := int64(101); height < 105; height++ {
		n.commit(height)
		wantTip(t, p, height)
	}
	n.stop()
	n.height, n.forkedAt = 110, 102 // it was set back, and has passed its fork point meanwhile
	n.start(n.address)
	eventually(t, "the epoch", func() bool { return p.Tip().Epoch > 0 && p.Tip().Height == 110 })
}

func TestClaimsOfALostNodeEndWithTheEpoch(t *testing.T) {
	n, lost := newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{RollbackAfter: time.Hour}, n, lost)
	eventually(t, "both subscriptions", func() bool { h := p.Health(); return h[0].Connected && h[1].Connected })
	for height := int64(101); height < 125; height++ {
		n.commit(height)
		lost.commit(height)
		wantTip(t, p, height)
	}
	mustFetch(t, p, Request{Height: AtTip})
	lost.stop()
	n.stop()
	n.height, n.forkedAt = 105, 102
	n.start(n.address)
	eventually(t, "the epoch", func() bool { return p.Tip().Epoch > 0 })
	wantTip(t, p, 105)
	if a := mustFetch(t, p, Request{Height: AtTip}); a.Height != 105 {
		t.Errorf("unexpected response %+v", a)
	}
}

func TestForkedNodeIsNotRead(t *testing.T) {
	log := new(logtest.Log)
	ours, other := newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{RollbackAfter: time.Hour, Logger: slog.New(slog.NewTextHandler(log, nil))}, other, ours)
	eventually(t, "both subscriptions", func() bool { h := p.Health(); return h[0].Connected && h[1].Connected })
	other.change(func() { other.forkedAt = 102 })
	for height := int64(101); height < 106; height++ {
		ours.commit(height)
		wantTip(t, p, height)
		other.commit(height)
	}
	eventually(t, "the exclusion", func() bool { return p.Health()[0].WrongChain })
	before := len(other.heights())
	for range 5 {
		if a := mustFetch(t, p, Request{Height: AtTip}); !from(a, ours) {
			t.Errorf("unexpected response %s", a.Body)
		}
	}
	if p.Tip().Epoch != 0 || len(other.heights()) != before {
		t.Errorf("epoch %d, asked %d times more", p.Tip().Epoch, len(other.heights())-before)
	}
	wantOneLine(t, log, "another fork")
	other.change(func() { other.forkedAt = 0 })
	ours.commit(106)
	wantTip(t, p, 106)
	other.commit(106)
	eventually(t, "the return", func() bool { return !p.Health()[0].WrongChain })
}

func TestReplicasAgreeOnAnEpoch(t *testing.T) {
	t.Parallel()
	l := new(memoryLedger)
	n := newFakeNode(t, 1000)
	a, b := sharing(t, l, n), sharing(t, l, n)
	mustFetch(t, a, Request{Height: AtTip}) // b has nothing that was read
	n.stop()
	n.height = 950
	n.start(n.address)
	eventually(t, "the epoch of both", func() bool { return a.Tip().Epoch > 0 && a.Tip().Epoch == b.Tip().Epoch })
	heardFor(t, time.Second, a, b)
	if a.Tip().Epoch != epochOf(t, l) || b.Tip().Epoch != epochOf(t, l) {
		t.Errorf("epochs %d and %d, agreed on %d", a.Tip().Epoch, b.Tip().Epoch, epochOf(t, l))
	}
}

func TestStartingReplicaDetectsAnotherChain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		node func(*fakeNode)
		same bool
	}{
		{"the same", func(n *fakeNode) { n.height = 120 }, true},
		{"the same, a little behind and moving on", func(n *fakeNode) { n.height = 100 }, true},
		{"one that was reset, and is lower", func(n *fakeNode) { n.height, n.forkedAt = 50, 1 }, false},
		{"one that was reset, and has passed", func(n *fakeNode) { n.height, n.forkedAt = 120, 1 }, false},
		{"one that catches up", func(n *fakeNode) { n.height, n.catchingUp = 50, true }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := anchored(t)
			lost := l.agreed.Anchors[99]
			n := newFakeNode(t, 1)
			tt.node(n)
			p := sharing(t, l, n)
			if !tt.same {
				eventually(t, "another epoch", func() bool { return p.Tip().Epoch > 0 && epochOf(t, l) == p.Tip().Epoch })
				if n.height < 99 {
					eventually(t, "that the others' block is lost", func() bool { return p.Replaced(99, lost) })
				}
				return
			}
			heardFor(t, time.Second, p)
			if p.Tip().Epoch != 0 || epochOf(t, l) != 0 {
				t.Errorf("epoch %d, agreed on %d", p.Tip().Epoch, epochOf(t, l))
			}
		})
	}
}

// A forger has every epoch begin with the hash of another chain.
type forger struct{ memoryLedger }

func (f *forger) Agreement(ctx context.Context, chainID string, epoch int64) (upstream.Agreement, error) {
	a, err := f.memoryLedger.Agreement(ctx, chainID, epoch)
	a.Anchors = map[int64]string{99: strings.Repeat("AB", 32)}
	return a, err
}

func TestForgedAnchorsBeginOneEpochPerInterval(t *testing.T) {
	t.Parallel()
	o := Options{Ledger: new(forger), RollbackAfter: 3 * time.Second} // which is asked each second
	p := run(t, o, newFakeNode(t, 120))
	eventually(t, "an epoch", func() bool { return p.Tip().Epoch > 0 })
	first := p.Tip().Epoch
	heardFor(t, o.RollbackAfter/2, p)
	if now := p.Tip().Epoch; now != first {
		t.Errorf("epoch %d is followed by %d", first, now)
	}
}

func TestLaggingNodeBeginsNoEpoch(t *testing.T) {
	t.Parallel() // it takes longer than the one ahead may be kept from confirming what it has
	o := Options{Ledger: new(memoryLedger), RollbackAfter: time.Second}
	ahead, behind := newFakeNode(t, 99), newFakeNode(t, 80)
	a := run(t, o, ahead)
	eventually(t, "the subscription", connected(a))
	ahead.commit(100)
	b := run(t, o, behind)
	heardFor(t, 2*o.RollbackAfter, b)
	if a.Tip().Epoch != 0 || b.Tip().Epoch != 0 {
		t.Errorf("epochs %d and %d, want none", a.Tip().Epoch, b.Tip().Epoch)
	}
}

func TestOnEpochWaitsForTheLedger(t *testing.T) {
	t.Parallel()
	l := &memoryLedger{down: true, agreed: upstream.Agreement{Epoch: 5}}
	n := newFakeNode(t, 100)
	told := make(chan int64, 10)
	p := run(t, Options{Ledger: l, RollbackAfter: 300 * time.Millisecond, OnEpoch: func(_ string, epoch int64) { told <- epoch }}, n)
	wantTip(t, p, 100)
	eventually(t, "that the others were asked for it", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.refusals > 3
	})
	if len(told) > 0 {
		t.Errorf("told of %d", <-told)
	}
	l.mu.Lock()
	l.down = false
	l.mu.Unlock()
	if epoch := <-told; epoch != 5 {
		t.Errorf("told of %d, want 5", epoch)
	}
}
