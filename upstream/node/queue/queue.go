package queue

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// freshRun is the maximum number of consecutive turns of fresh lines while others wait.
const freshRun = 3

// missRun is the maximum number of consecutive turns of a client's misses while its other requests wait.
const missRun = 3

// A queue holds the requests that wait for a slot, in one line per client. The lines take turns. As in RFC 8290, fresh
// lines go first: lines of clients without a recent turn. So an occasional client overtakes clients that flood
// the node.
type queue struct {
	lines         map[string]*line // by client
	fresh, served list.List        // of *line, in the order of their turns
	run           int              // consecutive turns of fresh lines while a served one waits
	waits         load
}

// A line holds a client's requests. It stays in served until its next turn even if it is empty, so that a client with
// sequential requests is not fresh each time.
type line struct {
	client  string
	waiters list.List     // of *waiter
	misses  list.List     // of *waiter; these go first
	run     int           // consecutive turns of misses while another request waits
	in      *list.List    // fresh or served of the queue
	place   *list.Element // its element in that list
}

type waiter struct {
	cost  Cost
	calm  bool          // the load was low at the waiter's turn
	ready bool          // its turn has come
	turn  chan struct{} // closed then; nil unless it waits
	line  *line
	in    *list.List    // waiters or misses of line
	place *list.Element // its element in that list
}

func (q *queue) push(r Request) *waiter {
	l := q.lines[r.Client]
	if l == nil {
		l = &line{client: r.Client, in: &q.fresh}
		l.place = q.fresh.PushBack(l)
		if q.lines == nil {
			q.lines = map[string]*line{}
		}
		q.lines[r.Client] = l
	}
	q.waits[r.Cost]++
	w := &waiter{cost: r.Cost, line: l, in: &l.waiters}
	if r.Miss {
		w.in = &l.misses
	}
	w.place = w.in.PushBack(w)
	return w
}

func (q *queue) waiting(client string) int {
	if l := q.lines[client]; l != nil {
		return l.len()
	}
	return 0
}

// ahead estimates the number of turns before the turn of a new request. It assumes that all lines are as long as the
// client's.
func (q *queue) ahead(r Request) int {
	l, fresh := q.lines[r.Client], q.fresh.Len()
	if l == nil {
		return min(fresh+fresh/freshRun, q.waits.requests())
	}
	own, others := l.before(r.Miss), fresh+q.served.Len()-1
	return min(own+(own+1)*others, q.waits.requests())
}

// forever as patience waits until the context ends.
const forever time.Duration = -1

// wait waits for a waiter's turn. If it fails with ErrLate or ctx.Err(), it removes the waiter. mu guards the queue. The
// caller must hold it, and wait unlocks it.
func (q *queue) wait(ctx context.Context, mu *sync.Mutex, w *waiter, patience time.Duration) error {
	if w.ready {
		mu.Unlock()
		return nil
	}
	w.turn = make(chan struct{})
	mu.Unlock()
	var late <-chan time.Time
	if patience != forever {
		late = time.After(patience)
	}
	err := ErrLate
	select {
	case <-w.turn:
		return nil
	case <-late:
	case <-ctx.Done():
		err = ctx.Err()
	}
	mu.Lock()
	defer mu.Unlock()
	if w.ready {
		return nil
	}
	q.remove(w)
	return err
}

func (q *queue) remove(w *waiter) {
	q.waits[w.cost]--
	w.in.Remove(w.place)
	if w.line.in == &q.fresh && w.line.len() == 0 {
		q.drop(w.line)
	}
}

// next returns the waiter whose turn it is, or nil. scans reports whether scans can run now.
func (q *queue) next(scans bool) *waiter {
	fresh := q.first(&q.fresh, scans)
	if fresh != nil && q.run < freshRun {
		return fresh
	}
	if served := q.first(&q.served, scans); served != nil {
		return served
	}
	return fresh
}

// first returns the first waiter of lines that can run now. It drops empty lines.
func (q *queue) first(lines *list.List, scans bool) *waiter {
	var after *list.Element
	for place := lines.Front(); place != nil; place = after {
		after = place.Next()
		l := place.Value.(*line)
		if l.len() == 0 {
			q.drop(l)
		} else if w := l.first(scans); w != nil {
			return w
		}
	}
	return nil
}

// first returns the oldest waiter that can run now. Scans do not block the requests behind them.
func (l *line) first(scans bool) *waiter {
	miss, other := firstOf(&l.misses, scans), firstOf(&l.waiters, scans)
	if miss == nil || other != nil && l.run >= missRun {
		return other
	}
	return miss
}

func (l *line) countTurn(w *waiter) {
	switch {
	case w.in != &l.misses:
		l.run = 0
	case l.waiters.Len() > 0:
		l.run++
	}
}

// before returns the number of requests of the line that have their turns before a new one.
func (l *line) before(miss bool) int {
	misses, others := l.misses.Len(), l.waiters.Len()
	if miss {
		return misses + min(misses/missRun, others)
	}
	return others + min(missRun*(others+1), misses)
}

func (l *line) len() int { return l.waiters.Len() + l.misses.Len() }

func firstOf(waiters *list.List, scans bool) *waiter {
	for place := waiters.Front(); place != nil; place = place.Next() {
		if w := place.Value.(*waiter); scans || w.cost != Scan {
			return w
		}
	}
	return nil
}

// grant gives a waiter its turn, and moves its line to the end.
func (q *queue) grant(w *waiter) {
	q.waits[w.cost]--
	l := w.line
	l.countTurn(w)
	w.in.Remove(w.place)
	switch {
	case l.in == &q.served:
		q.run = 0
		q.served.MoveToBack(l.place)
	default:
		if q.served.Len() > 0 {
			q.run++
		}
		q.fresh.Remove(l.place)
		l.in, l.place = &q.served, q.served.PushBack(l)
	}
	if w.ready = true; w.turn != nil {
		close(w.turn)
	}
}

func (q *queue) drop(l *line) {
	delete(q.lines, l.client)
	l.in.Remove(l.place)
}
