// Package queue hands out the slots of an endpoint, in each of which one request
// is asked: who waits for one, and whose turn it is.
package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// foregroundRun is how many free slots in a row the foreground may take while
// the background waits.
const foregroundRun = 3

// ErrLate is the error for a request that got no turn in time.
var ErrLate = errors.New("no turn in time")

// A Request is what waits for a slot.
type Request struct {
	Client     string // on whose behalf: clients take turns
	Scan       bool   // it takes one of the slots that scans have, too
	Background bool   // yields to foreground requests, and waits for its turn until its context ends
	Ahead      bool   // nobody waits for it: it does not wait for a turn, and leaves room for one that somebody waits for
}

// Slots are how many requests an endpoint is asked at a time: clients take turns
// (lines.go), foreground goes before background, and scans only into slots of
// their own. They are safe for concurrent use.
type Slots struct {
	patience time.Duration // of the foreground; the background waits as long as its context

	mu                     sync.Mutex
	slots, free, freeScans int
	foreground, background queue
	run                    int // slots the foreground took since the background had to wait
}

// New returns slots, all free, some of which scans may take. Foreground requests
// wait for one for as long as the patience.
func New(slots, scans int, patience time.Duration) *Slots {
	return &Slots{patience: patience, slots: slots, free: slots, freeScans: scans}
}

// Acquire waits for a slot; nil means Release must be called with the same
// request. The error is ErrLate, upstream.ErrYielded or the context's.
func (s *Slots) Acquire(ctx context.Context, r Request) error {
	if r.Ahead {
		return s.acquireSpare()
	}
	queue := &s.foreground
	if r.Background {
		queue = &s.background
	}
	s.mu.Lock()
	w := queue.push(r.Client, r.Scan)
	s.grant()
	s.mu.Unlock()

	patience := s.patience
	if r.Background {
		patience = forever
	}
	err := w.wait(ctx, patience)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return queue.giveUp(w, err)
}

// acquireSpare takes a slot for a request that is no Scan and that nobody waits for.
func (s *Slots) acquireSpare() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasSpare() {
		return upstream.ErrYielded
	}
	s.free--
	return nil
}

// Spare tells whether nobody waits for a slot, and one more than one is free.
func (s *Slots) Spare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasSpare()
}

func (s *Slots) hasSpare() bool {
	return s.foreground.waiting+s.background.waiting == 0 && s.free > 1
}

// Release gives the slot of a request back.
func (s *Slots) Release(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if r.Scan {
		s.freeScans++
	}
	s.grant()
}

// grant hands the free slots to those whose turn it is. Call with mu held.
func (s *Slots) grant() {
	for s.free > 0 {
		scan, ok := s.next()
		if !ok {
			return
		}
		s.free--
		if scan {
			s.freeScans--
		}
	}
}

// next gives the next waiter its turn; not ok where none can run now.
func (s *Slots) next() (scan, ok bool) {
	front, back := s.foreground.next(s.freeScans > 0), s.background.next(s.freeScans > 0)
	switch {
	case back != nil && (front == nil || s.run >= foregroundRun):
		s.run = 0
		s.background.take(back)
		return back.scan, true
	case front != nil:
		if back != nil {
			s.run++
		}
		s.foreground.take(front)
		return front.scan, true
	default:
		return false, false
	}
}

// Load is how many requests are in flight and how many wait.
func (s *Slots) Load() (inFlight, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots - s.free, s.foreground.waiting + s.background.waiting
}
