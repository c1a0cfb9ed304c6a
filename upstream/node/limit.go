package node

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

var errQueue = errors.New("no turn in time")

// A limiter hands out an endpoint's slots: clients take turns (queue.go),
// foreground goes before background, and Scans only into slots of their own.
type limiter struct {
	patience time.Duration // of the foreground; the background waits as long as its context

	mu                     sync.Mutex
	slots, free, freeScans int
	foreground, background queue
	run                    int // slots the foreground took since the background had to wait
}

func newLimiter(slots, scans int, patience time.Duration) *limiter {
	return &limiter{patience: patience, slots: slots, free: slots, freeScans: scans}
}

// acquire waits for a slot; nil means release must be called with the same
// cost. The error is errQueue, upstream.ErrYielded or the context's.
func (l *limiter) acquire(ctx context.Context, r Request) error {
	if r.Ahead {
		return l.acquireSpare()
	}
	queue := &l.foreground
	if r.Background {
		queue = &l.background
	}
	l.mu.Lock()
	w := queue.push(r.Client, r.Cost == Scan)
	l.grant()
	l.mu.Unlock()

	err := l.wait(ctx, w, r.Background)
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.turn: // the turn came while giving up: take it
		return nil
	default:
		queue.leave(w)
		return err
	}
}

// acquireSpare takes a slot for a request that is no Scan and that nobody waits for.
func (l *limiter) acquireSpare() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hasSpare() {
		return upstream.ErrYielded
	}
	l.free--
	return nil
}

// spare tells whether nobody waits for a slot, and one more than one is free.
func (l *limiter) spare() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hasSpare()
}

func (l *limiter) hasSpare() bool {
	return l.foreground.waiting+l.background.waiting == 0 && l.free > 1
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
		scan, ok := l.next()
		if !ok {
			return
		}
		l.free--
		if scan {
			l.freeScans--
		}
	}
}

// next gives the next waiter its turn; not ok where none can run now.
func (l *limiter) next() (scan, ok bool) {
	front, back := l.foreground.next(l.freeScans > 0), l.background.next(l.freeScans > 0)
	switch {
	case back != nil && (front == nil || l.run >= foregroundRun):
		l.run = 0
		l.background.take(back)
		return back.scan, true
	case front != nil:
		if back != nil {
			l.run++
		}
		l.foreground.take(front)
		return front.scan, true
	default:
		return false, false
	}
}

// load is how many requests are in flight and how many wait.
func (l *limiter) load() (inFlight, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slots - l.free, l.foreground.waiting + l.background.waiting
}
