package heights

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/tip"
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

// A resettingReader answers at any height. The chain is reset while it reads.
type resettingReader struct {
	reader
	chain *Chain
}

func (r *resettingReader) Read(ctx context.Context, height int64) (Reading, error) {
	r.chain.changeEpoch(ctx, r.chain.Tip().Epoch, "a test")
	return Reading{Height: height}, nil
}

func TestReadOfAnEarlierEpochProvesNoHeight(t *testing.T) {
	for name, claim := range map[string]tip.Claim{
		"read to prove the claim": {Height: 5000},
		"read before the claim":   {Height: 5000, Proved: true},
	} {
		c := New(Options{
			ChainID: "story-1", Interval: time.Second, RollbackAfter: time.Minute,
			Logger: slog.New(slog.DiscardHandler), OnEpoch: func(string, int64) {}, EpochChanged: func() {},
		})
		n := &Node{Reader: &resettingReader{chain: c}, Logger: c.o.Logger}
		s := c.newSource(n)
		s.claim(t.Context(), 0, tip.Claim{Height: 100, Proved: true}, nil, nil)
		epoch := c.Tip().Epoch
		if claim.Proved {
			_, _ = n.read(t.Context(), c, 5000)
		}
		s.claim(t.Context(), epoch, claim, nil, nil)
		if now := c.Tip(); now.Epoch == epoch || c.Proved() > 0 || now.Height > 100 {
			t.Errorf("%s: tip = %d and proved height = %d after a reset in epoch %d, want at most 100 and 0", name, now.Height, c.Proved(), now.Epoch)
		}
	}
}
