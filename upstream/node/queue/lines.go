package queue

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// freshRun is how many turns in a row the fresh lines may take while others wait.
const freshRun = 3

// missRun is how many turns in a row the misses of a client may take while its others wait.
const missRun = 3

// A queue is where requests wait for a slot, those of each client in a line of their own. The lines
// take turns, and a fresh line, of a client that had no turn lately, goes first, as in RFC 8290: a
// client that asks now and then passes one that floods the node, and many that do so together.
type queue struct {
	lines         map[string]*line // by client
	fresh, served list.List        // of *line, in the order of their turns
	run           int              // turns that fresh lines took since a served one had to wait
	waits         load
}

// A line stays among the served ones until its next turn, also when no request waits in it: a
// client that asks one thing after the other is not fresh each time.
type line struct {
	client  string
	waiters list.List // of *waiter
	misses  list.List // of *waiter: these go before the others
	run     int       // turns that misses took since another had to wait
	fresh   bool
	place   *list.Element // in the queue
}

type waiter struct {
	cost  Cost
	calm  bool          // little was asked when the turn came
	turn  chan struct{} // closed when the slot is the waiter's
	line  *line
	in    *list.List    // of the line
	place *list.Element // in that
}

func (q *queue) push(r Request) *waiter {
	l := q.lines[r.Client]
	if l == nil {
		l = &line{client: r.Client, fresh: true}
		l.place = q.fresh.PushBack(l)
		if q.lines == nil {
			q.lines = map[string]*line{}
		}
		q.lines[r.Client] = l
	}
	q.waits[r.Cost]++
	w := &waiter{cost: r.Cost, turn: make(chan struct{}), line: l, in: &l.waiters}
	if r.Miss {
		w.in = &l.misses
	}
	w.place = w.in.PushBack(w)
	return w
}

// of is how many requests of a client wait.
func (q *queue) of(client string) int {
	if l := q.lines[client]; l != nil {
		return l.len()
	}
	return 0
}

// ahead is how many turns of a queue come before that of one more request. All lines count as if as
// much of them came before it as of its client's, to look at none.
func (q *queue) ahead(r Request) int {
	l, fresh := q.lines[r.Client], q.fresh.Len()
	if l == nil {
		return min(fresh+fresh/freshRun, q.waits.requests())
	}
	own, others := l.before(r.Miss), fresh+q.served.Len()-1
	return min(own+(own+1)*others, q.waits.requests())
}

// forever is the patience of what waits for as long as its context.
const forever time.Duration = -1

// wait returns nil when the turn of a waiter has come. Otherwise it is taken out, and the error is
// ErrLate or the context's. mu guards the queue, and is not held.
func (q *queue) wait(ctx context.Context, mu *sync.Mutex, w *waiter, patience time.Duration) error {
	select {
	case <-w.turn:
		return nil
	default:
	}
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
	select {
	case <-w.turn: // it came meanwhile
		return nil
	default:
		q.leave(w)
		return err
	}
}

// leave takes out a waiter that had no turn.
func (q *queue) leave(w *waiter) {
	q.waits[w.cost]--
	w.in.Remove(w.place)
	if w.line.fresh && w.line.len() == 0 {
		q.drop(w.line)
	}
}

// next is the waiter whose turn it is, of the waiters that could run now; nil for none.
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

// first is the first waiter in some lines that could run now. Lines without a waiter end here.
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

// first is the oldest waiter that could run now: scans do not hold up those behind them.
func (l *line) first(scans bool) *waiter {
	miss, other := firstOf(&l.misses, scans), firstOf(&l.waiters, scans)
	if miss == nil || other != nil && l.run >= missRun {
		return other
	}
	return miss
}

// passes notes whose turn it is.
func (l *line) passes(w *waiter) {
	switch {
	case w.in != &l.misses:
		l.run = 0
	case l.waiters.Len() > 0:
		l.run++
	}
}

// before is how many requests of a line have their turns before one more.
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

// grant gives the waiter its turn. Its line is the last to have another.
func (q *queue) grant(w *waiter) {
	q.waits[w.cost]--
	l := w.line
	l.passes(w)
	w.in.Remove(w.place)
	switch {
	case !l.fresh:
		q.run = 0
		q.served.MoveToBack(l.place)
	default:
		if q.served.Len() > 0 {
			q.run++
		}
		q.fresh.Remove(l.place)
		l.fresh, l.place = false, q.served.PushBack(l)
	}
	close(w.turn)
}

func (q *queue) drop(l *line) {
	delete(q.lines, l.client)
	if l.fresh {
		q.fresh.Remove(l.place)
	} else {
		q.served.Remove(l.place)
	}
}
