package node

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// foregroundRun is how many free slots in a row the foreground may take while
// the background waits.
const foregroundRun = 3

var errQueue = errors.New("no turn in time")

// A limiter hands out an endpoint's slots: oldest first, foreground before
// background, and Scans only into slots of their own. A Scan that waits for
// such a slot does not hold up those behind it.
type limiter struct {
	patience time.Duration // of the foreground; the background waits as long as its context

	mu                     sync.Mutex
	slots, free, freeScans int
	foreground, background list.List // of *waiter
	run                    int       // slots the foreground took since the background had to wait
}

type waiter struct {
	scan bool
	turn chan struct{} // closed when the slot is the waiter's
}

func newLimiter(slots, scans int, patience time.Duration) *limiter {
	return &limiter{patience: patience, slots: slots, free: slots, freeScans: scans}
}

// acquire waits for a slot; nil means release must be called with the same
// cost. The error is errQueue or the context's.
func (l *limiter) acquire(ctx context.Context, cost Cost, background bool) error {
	w := &waiter{scan: cost == Scan, turn: make(chan struct{})}
	queue := &l.foreground
	if background {
		queue = &l.background
	}
	l.mu.Lock()
	place := queue.PushBack(w)
	l.grant()
	l.mu.Unlock()

	err := l.wait(ctx, w, background)
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.turn: // the turn came while giving up: take it
		return nil
	default:
		queue.Remove(place)
		return err
	}
}

func (l *limiter) wait(ctx context.Context, w *waiter, background bool) error {
	select {
	case <-w.turn:
		return nil
	default:
	}
	var late <-chan time.Time
	if !background {
		late = time.After(l.patience)
	}
	select {
	case <-w.turn:
		return nil
	case <-late:
		return errQueue
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release gives a slot back.
func (l *limiter) release(cost Cost) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free++
	if cost == Scan {
		l.freeScans++
	}
	l.grant()
}

// grant hands the free slots to those whose turn it is. Call with mu held.
func (l *limiter) grant() {
	for l.free > 0 {
		w := l.next()
		if w == nil {
			return
		}
		l.free--
		if w.scan {
			l.freeScans--
		}
		close(w.turn)
	}
}

// next takes the next waiter from its queue; nil if none can run now.
func (l *limiter) next() *waiter {
	front, back := l.oldest(&l.foreground), l.oldest(&l.background)
	switch {
	case back != nil && (front == nil || l.run >= foregroundRun):
		l.run = 0
		return l.background.Remove(back).(*waiter)
	case front != nil:
		if back != nil {
			l.run++
		}
		return l.foreground.Remove(front).(*waiter)
	default:
		return nil
	}
}

// oldest is the first place in a queue whose waiter could run now.
func (l *limiter) oldest(queue *list.List) *list.Element {
	for place := queue.Front(); place != nil; place = place.Next() {
		if l.freeScans > 0 || !place.Value.(*waiter).scan {
			return place
		}
	}
	return nil
}

// load is how many requests are in flight and how many wait.
func (l *limiter) load() (inFlight, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slots - l.free, l.foreground.Len() + l.background.Len()
}
