package heights

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// A turningLedger calls meanwhile before it returns the epoch.
type turningLedger struct {
	meanwhile func() (epoch int64)
	anchors   map[string]int64 // epoch of each hash
}

func (l *turningLedger) Agreement(context.Context, string, int64) (upstream.Agreement, error) {
	return upstream.Agreement{Epoch: l.meanwhile()}, nil
}

func (l *turningLedger) NextEpoch(_ context.Context, _ string, _, to int64) (int64, error) {
	return to, nil
}

func (l *turningLedger) AddAnchor(_ context.Context, _ string, epoch, _ int64, hash string) error {
	l.anchors[hash] = epoch
	return nil
}

func TestAnchorIsAddedToItsOwnEpoch(t *testing.T) {
	ledger := &turningLedger{anchors: map[string]int64{}}
	c := New(Options{
		ChainID: "story-1", Interval: time.Second, RollbackAfter: time.Minute, Ledger: ledger,
		Logger: slog.New(slog.DiscardHandler), OnEpoch: func(string, int64) {}, EpochChanged: func() {},
	})
	c.adopt(0)
	before := c.Tip().Epoch
	ledger.meanwhile = func() int64 {
		c.changeEpoch(t.Context(), before, "a test")
		c.hashes.add(10, "of the new chain", nil)
		return c.Tip().Epoch
	}
	r := &reconciler{chain: c}
	if !r.reconcile(t.Context()) || len(ledger.anchors) > 0 {
		t.Errorf("anchors after the end of epoch %d = %v, want none", before, ledger.anchors)
	}
	r.reconcile(t.Context())
	if now := c.Tip().Epoch; now == before || ledger.anchors["of the new chain"] != now {
		t.Errorf("epoch = %d, anchors = %v; want the hash in this epoch", now, ledger.anchors)
	}
}
