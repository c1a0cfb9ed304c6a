package events

import (
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// fill asks for the next block where it can be read and is not announced in time, or was
// passed over.
func (s *sequencer) fill(ctx context.Context, t tip.Tip, next int64) time.Duration {
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
func (s *sequencer) passedOver(height int64) bool {
	for _, a := range s.pending {
		if a.block != nil && a.block.Height > height && a.from == s.ear.current() {
			return true
		}
	}
	return false
}

// accept announces a block that was read.
func (s *sequencer) accept(ctx context.Context, r read) {
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

func (s *sequencer) retry() {
	s.retryAt = time.Now().Add(s.delay)
	s.delay = min(2*s.delay, maxDelay)
}
