package heights_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/heights"
)

// A ledger holds the epoch and anchors of the other replicas.
type ledger struct {
	mu      sync.Mutex
	epoch   int64
	anchors map[int64]string
}

func (l *ledger) set(epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch = epoch
}

func (l *ledger) Agreement(context.Context, string, int64) (upstream.Agreement, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return upstream.Agreement{Epoch: l.epoch, Anchors: l.anchors}, nil
}

func (l *ledger) NextEpoch(_ context.Context, _ string, _, to int64) (int64, error) { return to, nil }

func (l *ledger) AddAnchor(context.Context, string, int64, int64, string) error { return nil }

// runWithLedger runs a chain with a node and a ledger. A call of the returned function makes blocks.
func runWithLedger(t *testing.T, n *fakeNode, o heights.Options) (c *heights.Chain, blocks func(count int)) {
	t.Helper()
	o.ChainID, o.Interval, o.RollbackAfter, o.Logger = "story-1", interval, rollback, slog.New(slog.DiscardHandler)
	o.Reconnected = func(string) {}
	c = heights.New(o)
	c.Add(&heights.Node{Name: "node", Reader: n, Comet: n, ReportsHeight: func() bool { return false }, Logger: o.Logger})
	run(t, c)
	return c, func(count int) {
		for range count {
			time.Sleep(interval)
			n.commit()
			synctest.Wait()
		}
	}
}

func TestNewerEpochOfReplicasIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		others := &ledger{epoch: 5}
		var epochs []int64 // epochs begun
		rollbacks := 0
		c, blocks := runWithLedger(t, newFakeNode(1000), heights.Options{
			Ledger: others, OnEpoch: func(_ string, epoch int64) { epochs = append(epochs, epoch) }, EpochChanged: func() { rollbacks++ },
		})
		for _, step := range []struct {
			name      string
			others    int64
			epoch     int64
			begun     []int64
			rollbacks int // each drops the cache
		}{
			{"the first one", 5, 5, []int64{5}, 0},
			{"the same again", 5, 5, []int64{5}, 0},
			{"an older one", 4, 5, []int64{5}, 0},
			{"a newer one", 7, 7, []int64{5, 7}, 1},
			{"the previous one", 5, 7, []int64{5, 7}, 1},
			{"none", 0, 7, []int64{5, 7}, 1},
		} {
			others.set(step.others)
			blocks(10)
			if got := c.Tip().Epoch; got != step.epoch || rollbacks != step.rollbacks {
				t.Errorf("%s: epoch = %d after %d rollbacks, want %d after %d", step.name, got, rollbacks, step.epoch, step.rollbacks)
			}
			expect.NoDiff(t, epochs, step.begun, "%s: epochs begun", step.name)
		}
	})
}

func TestAnchorWithAnotherHashIsARollback(t *testing.T) {
	for name, tt := range map[string]struct {
		anchor, hash string
		rollbacks    int
	}{
		"the same hash": {"A990", "A990", 0},
		"another hash":  {"B990", "A990", 1},
		"no hash":       {"A990", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, rollbacks := newFakeNode(1000), 0
				n.hash = func(height int64) string {
					if tt.hash == "" {
						return ""
					}
					return fmt.Sprint("A", height)
				}
				_, blocks := runWithLedger(t, n, heights.Options{
					Ledger:  &ledger{epoch: 5, anchors: map[int64]string{990: tt.anchor}},
					OnEpoch: func(string, int64) {}, EpochChanged: func() { rollbacks++ },
				})
				blocks(30)
				expect.Equal(t, rollbacks, tt.rollbacks, "rollbacks")
			})
		})
	}
}

// The epoch begins without hashes, so that this replica cannot compare the node on a fork while the other one restarts.
func TestForkIsNotFollowedAfterAnEpochOfReplicasDuringARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		others, ours, other := &ledger{epoch: 5}, newFakeNode(1000), newFakeNode(1000)
		c, blocks := runWithLedger(t, ours, heights.Options{Ledger: others, OnEpoch: func(string, int64) {}, EpochChanged: func() {}})
		forked := &heights.Node{Name: "forked", Reader: other, Comet: other, ReportsHeight: func() bool { return false }, Logger: slog.New(slog.DiscardHandler)}
		c.Add(forked)
		both := func(count int) {
			for range count {
				other.commit()
				synctest.Wait()
				blocks(1)
			}
		}
		both(10)
		other.fork(1)
		both(5)
		if v := forked.State(); !v.Foreign() {
			t.Fatalf("state = %+v, want the node on a fork", v)
		}
		ours.setDown(true)
		others.set(7)
		both(30)
		ours.setDown(false)
		both(10)
		if v, tip := forked.State(), c.Tip(); !v.Foreign() || tip.Epoch != 7 || c.HashOf(tip.Height-2) != fmt.Sprint("A", tip.Height-2) {
			t.Errorf("Fork = %d, tip = %+v with hash %s below, want the node on a fork and the other chain in epoch 7", v.Fork, tip, c.HashOf(tip.Height-2))
		}
	})
}
