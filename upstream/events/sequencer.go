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
	grace          = 250 * time.Millisecond // how long a node may take to announce a readable block
	maxHold        = 3 * time.Second        // how long an announced block may take to become readable
	firstDelay     = 100 * time.Millisecond // before a failed read is retried
	maxDelay       = 2 * time.Second
	maxFailing     = 30 * time.Second // how long a block is awaited that fit nodes do not provide
	maxUnannounced = 3                // consecutive unannounced blocks before the feed changes to another node
	maxPending     = 500              // announced blocks and consensus events that wait for an earlier block
	linger         = 10 * time.Second // how long consensus events are received after the last subscription to them has ended
	maxFallen      = 100              // blocks between a fall and the begin of its epoch that are announced
	maxDisputes    = 5                // how often a block that does not follow the last one is read again before it is accepted
)

var (
	errUnrelated  = errors.New("node announced a block that does not follow the last one")
	errUnreadable = errors.New("node announced a block that does not become readable")
	errSilent     = errors.New("node does not announce readable blocks")
)

// A sequencer announces each block once and in order, until the demand changes. It runs on the goroutine
// of follow, except for the node listener and the reads.
type sequencer struct {
	*Feed
	listener  *nodeListener
	startWait func(wait func(ctx context.Context)) // runs a function in a goroutine, until Run ends
	workers   sync.WaitGroup

	pending     []arrival // in the node's order; the first one waits for its block to become readable
	reads       chan readResult
	reading     bool
	unannounced int // consecutive blocks that were read because the node did not announce them

	// Since the last announced block.
	disputes int           // reads of a block that does not follow it
	delay    time.Duration // before the next retry
	retryAt  time.Time
}

// An arrival is an event received from a node.
type arrival struct {
	from  *nodeSubscription
	at    time.Time
	epoch int64 // of the tip at that time
	block *Block
	event *Event // a consensus event, if block is nil
	bytes int    // length of the message
}

// follow announces blocks until ctx ends or the demand changes. It then ends the node's subscription and forgets what is
// pending.
func (f *Feed) follow(ctx context.Context, consensus bool, startWait func(wait func(ctx context.Context))) {
	ctx, cancel := context.WithCancel(ctx)
	s := &sequencer{
		Feed: f, listener: newNodeListener(f, consensus), startWait: startWait,
		reads: make(chan readResult, 1), delay: firstDelay,
	}
	defer s.workers.Wait()
	defer cancel()
	s.workers.Go(func() { s.listener.listen(ctx) })
	for {
		moved, arrivals := f.o.Heights.Moved(), s.listener.arrivals
		if len(s.pending) >= maxPending || s.pendingBytes() >= MaxMessage {
			arrivals = nil // read no more until some are announced
		}
		timer := time.NewTimer(s.advance(ctx))
		select {
		case <-moved:
		case <-timer.C:
		case a := <-arrivals:
			s.pending = append(s.pending, a)
		case r := <-s.reads:
			s.reading = false
			s.handleRead(r)
		case <-f.hub.changed:
		case <-ctx.Done():
		}
		timer.Stop()
		if some, now := f.demand(); !some || now != consensus || ctx.Err() != nil {
			return
		}
	}
}

func (s *sequencer) pendingBytes() (bytes int) {
	for _, a := range s.pending {
		bytes += a.bytes
	}
	return bytes
}

// advance announces pending blocks and reads a missing one. It returns when to check again.
func (s *sequencer) advance(ctx context.Context) time.Duration {
	for {
		t := s.o.Heights.Tip()
		next := s.nextAt(t)
		if len(s.pending) == 0 || !s.release(s.pending[0], t, next) {
			return s.readMissing(ctx, t, next)
		}
		s.pending[0] = arrival{}
		s.pending = s.pending[1:]
	}
}

// release announces or discards an arrival. It returns false if the arrival has to wait.
func (s *sequencer) release(a arrival, t tip.Tip, next int64) bool {
	switch {
	case a.from.dropped.Load() || a.epoch != t.Epoch: // a block of another epoch may have been rolled back
		return true
	case a.block == nil:
		s.hub.publish(a.event)
		return true
	case a.block.Height < next:
		return true
	case a.block.ChainID != s.o.Heights.ChainID() || a.block.Height == next && !s.follows(a.block):
		s.listener.drop(a.from, errUnrelated)
		return true
	case next == 0 || a.block.Height > next || t.Height < next:
		if time.Since(a.at) > maxHold && t.Height < a.block.Height {
			s.listener.drop(a.from, errUnreadable)
			return true
		}
		return false
	}
	s.unannounced = 0
	s.announce(a.block, t.Epoch, "announced")
	return true
}

func (s *sequencer) announce(b *Block, epoch int64, source string) {
	var built []*Event
	var failures []buildFailure
	// A block that panics has no events.
	upstream.GuardInput(s.o.Logger, "block events", func() { built, failures = b.events() })
	for _, f := range failures {
		s.metrics.leftOut.WithLabelValues(f.kind).Inc()
	}
	if len(failures) > 0 {
		s.o.Logger.Error("left out events of a block that cannot be built", "height", b.Height, "events", len(failures), "first", failures[0].kind, "error", failures[0].err)
	}
	found, wanted := make(chan struct{}), 0
	for _, e := range built {
		e.Epoch = epoch
		if e.Kind == Tx {
			e.found = found
		}
		if offered := s.hub.publish(e); e.Kind == Tx {
			wanted += offered
		}
	}
	s.markAnnounced(b.Height, b.Hash)
	s.disputes, s.delay, s.retryAt, s.failing = 0, firstDelay, time.Time{}, failing{}
	s.metrics.blocks.WithLabelValues(source).Inc()
	// If no client waits, only blocks that were read are searched, for the metric: a node that was stopped may not have
	// indexed them.
	if wanted == 0 && (source != "read" || len(b.results) == 0) {
		close(found)
		return
	}
	s.startWait(func(ctx context.Context) {
		defer close(found)
		upstream.GuardInput(s.o.Logger, "index of transactions", func() { s.awaitIndex(ctx, b) })
	})
}
