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

func TestNewerEpochOfReplicasIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		others, n := &ledger{epoch: 5}, newFakeNode(1000)
		var epochs []int64 // epochs begun
		turns := 0
		c := heights.New(heights.Options{
			ChainID: "story-1", Interval: interval, RollbackAfter: rollback, Ledger: others, Logger: slog.New(slog.DiscardHandler),
			OnEpoch: func(_ string, epoch int64) { epochs = append(epochs, epoch) }, EpochChanged: func() { turns++ }, Reconnected: func(string) {},
		})
		c.Add(&heights.Node{Name: "node", Reader: n, Comet: n, ReportsHeight: func() bool { return false }, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() { defer close(ended); c.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		for _, step := range []struct {
			name   string
			others int64
			epoch  int64
			begun  []int64
			turns  int // rollbacks, each of which drops the cache
		}{
			{"the first one", 5, 5, []int64{5}, 0},
			{"the same again", 5, 5, []int64{5}, 0},
			{"an older one", 4, 5, []int64{5}, 0},
			{"a newer one", 7, 7, []int64{5, 7}, 1},
			{"the previous one", 5, 7, []int64{5, 7}, 1},
			{"none", 0, 7, []int64{5, 7}, 1},
		} {
			others.set(step.others)
			for range 10 {
				time.Sleep(interval)
				n.commit()
				synctest.Wait()
			}
			if got := c.Tip().Epoch; got != step.epoch || turns != step.turns {
				t.Errorf("%s: epoch %d after %d rollbacks, want %d after %d", step.name, got, turns, step.epoch, step.turns)
			}
			expect.NoDiff(t, epochs, step.begun, "%s: epochs begun", step.name)
		}
	})
}

func TestAnchorWithAnotherHashIsARollback(t *testing.T) {
	for name, tt := range map[string]struct {
		anchor, hash string
		turns        int
	}{
		"the same hash": {"A990", "A990", 0},
		"another hash":  {"B990", "A990", 1},
		"no hash":       {"A990", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, turns := newFakeNode(1000), 0
				n.hash = func(height int64) string {
					if tt.hash == "" {
						return ""
					}
					return fmt.Sprint("A", height)
				}
				c := heights.New(heights.Options{
					ChainID: "story-1", Interval: interval, RollbackAfter: rollback, Logger: slog.New(slog.DiscardHandler),
					Ledger:  &ledger{epoch: 5, anchors: map[int64]string{990: tt.anchor}},
					OnEpoch: func(string, int64) {}, EpochChanged: func() { turns++ }, Reconnected: func(string) {},
				})
				c.Add(&heights.Node{Name: "node", Reader: n, Comet: n, ReportsHeight: func() bool { return false }, Logger: slog.New(slog.DiscardHandler)})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan bool)
				go func() { defer close(ended); c.Run(ctx) }()
				defer func() { cancel(); <-ended }()
				for range 30 {
					time.Sleep(interval)
					n.commit()
					synctest.Wait()
				}
				expect.Equal(t, turns, tt.turns, "rollbacks")
			})
		})
	}
}
