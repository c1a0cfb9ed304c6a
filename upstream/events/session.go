package events

import (
	"context"
	"errors"
	"sync"
	"time"

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

// A session announces blocks while the demand stays as it is. All of it runs on the
// goroutine of loop, but for listen and the reads.
type session struct {
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
	s := &session{Feed: f, ear: newEar(f, wide), waits: waits, epoch: f.o.Heights.Tip().Epoch, reads: make(chan read, 1), delay: firstDelay}
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

// advance announces what can be, and asks for a block that is missing. It says when
// to look again, whatever happens.
func (s *session) advance(ctx context.Context) time.Duration {
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
func (s *session) release(ctx context.Context, a arrival, t tip.Tip, next int64) bool {
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

// fill asks for the next block where it can be read and is not announced in time, or was
// passed over.
func (s *session) fill(ctx context.Context, t tip.Tip, next int64) time.Duration {
	now := time.Now()
	switch {
	case next == 0 || t.Height < next || s.reading:
		return maxHold
	case s.late != next:
		s.late, s.since = next, now
	}
	if t.Height == next && s.ear.current() != nil && !s.passedOver(next) {
		if left := grace - now.Sub(s.since); left > 0 {
			return left
		}
	}
	if left := s.retryAt.Sub(now); left > 0 {
		return left
	}
	s.reading = true
	s.workers.Go(func() { s.reads <- s.read(ctx, next) })
	return maxHold
}

// passedOver says whether the node went on to a later block.
func (s *session) passedOver(height int64) bool {
	for _, a := range s.pending {
		if a.block != nil && a.block.Height > height && a.from == s.ear.current() {
			return true
		}
	}
	return false
}

// accept announces a block that was read.
func (s *session) accept(ctx context.Context, r read) {
	next := s.upcoming(s.o.Heights.Tip())
	switch {
	case r.height != next:
		return // it came meanwhile
	case errors.Is(r.err, errGone):
		s.o.Logger.Error("no node has a block any more whose events are missing", "height", next)
		s.metrics.blocks.WithLabelValues("lost").Inc()
		s.passed(next, "")
	case r.err != nil:
		s.retry()
	case !s.follows(r.block) && s.disputes < maxDisputes:
		s.disputes++
		s.retry()
	default:
		if s.delay, s.disputes = firstDelay, 0; next == s.o.Heights.Tip().Height && s.ear.current() != nil {
			s.silence++
		}
		s.announce(ctx, r.block, "read")
		if on := s.ear.current(); on != nil && s.silence >= maxSilence {
			s.silence = 0
			s.ear.drop(on, errSilent)
		}
	}
}

func (s *session) retry() {
	s.retryAt = time.Now().Add(s.delay)
	s.delay = min(2*s.delay, maxDelay)
}

// announce publishes the events of a block.
func (s *session) announce(ctx context.Context, b *Block, source string) {
	built, err := b.events()
	if err != nil {
		s.o.Logger.Error("an event of a block could not be made", "height", b.Height, "error", err)
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
		s.awaitIndex(ctx, b)
	})
}
