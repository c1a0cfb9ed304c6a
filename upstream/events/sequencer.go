package events

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

const (
	grace       = 250 * time.Millisecond // for a node to announce a block that can be read
	maxHold     = 3 * time.Second        // for a block that was announced to become readable
	firstDelay  = 100 * time.Millisecond // before a read that failed is tried again
	maxDelay    = 2 * time.Second
	maxSilence  = 3   // blocks that a node did not announce, before another one is listened to
	maxPending  = 500 // events that wait for a block before them
	maxDisputes = 5   // reads of a block that does not follow the last one, before it is believed
)

var (
	errStranger = errors.New("it announces a block that does not follow the last one")
	errUnread   = errors.New("it announces a block that cannot be read")
	errSilent   = errors.New("it does not announce the blocks that can be read")
)

// A sequencer announces blocks, each once and in their order, while the demand stays as it
// is. All of it runs on the goroutine of follow, but for listen and the reads.
type sequencer struct {
	*Feed
	ear     *ear
	waits   *sync.WaitGroup
	workers sync.WaitGroup

	epoch    int64
	pending  []arrival // in the order of the node; the first one is held
	reads    chan read
	reading  bool
	late     int64     // the height that the node has not announced, though it can be read,
	since    time.Time // and since when
	silence  int       // blocks in a row that were read, not announced
	disputes int       // reads in a row that did not follow
	delay    time.Duration
	retryAt  time.Time
}

// An arrival is what came through a subscription.
type arrival struct {
	from  *subscribed
	at    time.Time
	block *Block // nil for an event that passes as it comes:
	event *Event
}

// follow announces blocks until ctx ends or the demand changes.
func (f *Feed) follow(ctx context.Context, wide bool, waits *sync.WaitGroup) {
	ctx, cancel := context.WithCancel(ctx)
	s := &sequencer{Feed: f, ear: newEar(f, wide), waits: waits, epoch: f.o.Heights.Tip().Epoch, reads: make(chan read, 1), delay: firstDelay}
	defer s.workers.Wait()
	defer cancel()
	s.workers.Go(func() { s.ear.listen(ctx) })
	for {
		moved, arrivals := f.o.Heights.Moved(), s.ear.arrivals
		if len(s.pending) >= maxPending {
			arrivals = nil // until those before are told of
		}
		timer := time.NewTimer(s.advance(ctx))
		select {
		case <-moved:
		case <-timer.C:
		case a := <-arrivals:
			s.pending = append(s.pending, a)
		case r := <-s.reads:
			s.reading = false
			s.accept(ctx, r)
		case <-f.hub.changed:
		case <-ctx.Done():
		}
		timer.Stop()
		if some, now := f.hub.demand(); !some || now != wide || ctx.Err() != nil {
			return
		}
	}
}

// advance announces what can be, or asks for a missing block, and says when to look again.
func (s *sequencer) advance(ctx context.Context) time.Duration {
	for {
		t := s.o.Heights.Tip()
		next := s.upcoming(t)
		if t.Epoch != s.epoch { // what was announced before it is not of this chain
			s.pending, s.epoch = nil, t.Epoch
		}
		if len(s.pending) == 0 || !s.release(ctx, s.pending[0], t, next) {
			return s.fill(ctx, t, next)
		}
		s.pending[0] = arrival{}
		s.pending = s.pending[1:]
	}
}

// release announces what came first, or drops it. It is false for what has to wait.
func (s *sequencer) release(ctx context.Context, a arrival, t tip.Tip, next int64) bool {
	switch {
	case a.from.void.Load():
		return true
	case a.block == nil:
		s.hub.publish(a.event)
		return true
	case a.block.Height < next:
		return true
	case a.block.ChainID != s.o.Heights.ChainID() || a.block.Height == next && !s.follows(a.block):
		s.ear.drop(a.from, errStranger)
		return true
	case next == 0 || a.block.Height > next || t.Height < next:
		if time.Since(a.at) > maxHold && t.Height < a.block.Height {
			s.ear.drop(a.from, errUnread)
			return true
		}
		return false
	}
	s.silence = 0
	s.announce(ctx, a.block, "announced")
	return true
}

// announce publishes the events of a block.
func (s *sequencer) announce(ctx context.Context, b *Block, source string) {
	var built []*Event
	var left []leftOut
	_ = upstream.Guard(s.o.Logger, "block events", func() error { // without them the block passes
		built, left = b.events()
		return nil
	})
	for _, l := range left {
		s.metrics.leftOut.WithLabelValues(l.kind).Inc()
	}
	if len(left) > 0 {
		s.o.Logger.Error("left out events of a block that cannot be built", "height", b.Height, "events", len(left), "first", left[0].kind, "error", left[0].err)
	}
	found, wanted := make(chan struct{}), 0
	for _, e := range built {
		if e.Kind == Tx {
			e.found = found
		}
		if given := s.hub.publish(e); e.Kind == Tx {
			wanted += given
		}
	}
	s.passed(b.Height, b.Hash)
	s.metrics.blocks.WithLabelValues(source).Inc()
	// A node that did not announce a block may have been stopped before it was indexed.
	if wanted == 0 && (source != "read" || len(b.results) == 0) {
		close(found)
		return
	}
	s.waits.Go(func() {
		defer close(found)
		_ = upstream.Guard(s.o.Logger, "index of transactions", func() error {
			s.awaitIndex(ctx, b)
			return nil
		})
	})
}
