// Package queue hands out the slots of an endpoint, in each of which one request
// is asked: how many there are (limit.go), which requests wait for one and whose turn it is
// (lines.go), and how long it is likely to take until a request is answered (slots.go).
package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// foregroundRun is how many slots in a row the foreground may take while the background waits.
const foregroundRun = 3

// ErrLate is the error for a request that got no turn in time.
var ErrLate = errors.New("no turn in time")

// A Request is what waits for a slot.
type Request struct {
	Client     string // on whose behalf: clients take turns
	Cost       Cost   // a Scan takes one of the slots that scans have, too; Unknown requests get at most a quarter of the slots, and wait in a queue of their own
	Miss       bool   // without its answer the client gets none: it goes before the client's others, but for one turn of four
	Background bool   // yields to foreground requests, and waits for its turn until its context ends
	Ahead      bool   // no client waits for it: it does not wait for a turn, and leaves room for one that a client waits for
}

// Options say how much an endpoint is asked.
type Options struct {
	Limit    int           // requests at a time, of whatever cost; 0: as much as the endpoint bears, from [Least] to [Most]
	Scans    int           // of these, requests of cost Scan
	Patience time.Duration // of the foreground; the background waits as long as its context
	Headers  Headers       // nil: there are none
}

// Slots are how much an endpoint is asked at a time: clients take turns (lines.go), and foreground
// goes before background. They are safe for concurrent use.
type Slots struct {
	patience time.Duration

	mu                     sync.Mutex
	limit                  limit
	taken                  load
	freeScans              int
	foreground, background queue
	unknown                queue
	run                    int              // slots the foreground took since the background had to wait
	known                  int              // slots that other requests took since an Unknown one did
	progress               [costs]time.Time // when a request of the cost ended last, or began while there was none
}

// New returns slots, all free.
func New(o Options) *Slots {
	return &Slots{patience: o.Patience, limit: newLimit(o.Limit, o.Headers), freeScans: o.Scans}
}

// A load is a number of requests, by cost.
type load [costs]int

func (n *load) requests() int { return n[Cheap] + n[Page] + n[Scan] + n[Unknown] }

func (n *load) weight(l *limit) (sum float64) {
	for c, some := range n {
		sum += float64(some) * l.weight(Cost(c))
	}
	return sum
}

// work is how long an endpoint takes for the requests, one after the other.
func (n *load) work(l *limit) (sum float64) {
	for c, some := range n {
		sum += float64(some) * l.weight(Cost(c)) * float64(l.recent[c])
	}
	return sum
}

// A Turn is a slot that is taken.
type Turn struct {
	slots *Slots
	cost  Cost
	began time.Time
	calm  bool // little was asked then
}

// Acquire waits for a slot. The error is ErrLate, upstream.ErrYielded or the context's.
func (s *Slots) Acquire(ctx context.Context, r Request) (*Turn, error) {
	r.Cost = r.Cost.known()
	if r.Ahead {
		return s.acquireSpare(r)
	}
	queue, patience := &s.foreground, s.patience
	switch {
	case r.Cost == Unknown:
		queue = &s.unknown
	case r.Background:
		queue, patience = &s.background, forever
	}
	s.mu.Lock()
	w := queue.push(r)
	s.grant()
	s.mu.Unlock()

	if err := queue.wait(ctx, &s.mu, w, patience); err != nil {
		return nil, err
	}
	return &Turn{s, r.Cost, time.Now(), w.calm}, nil
}

// acquireSpare takes a slot for a request that is no Scan and that no client waits for.
func (s *Slots) acquireSpare(r Request) (*Turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasSpare() {
		return nil, upstream.ErrYielded
	}
	return &Turn{s, r.Cost, time.Now(), s.begin(r.Cost)}, nil
}

// Spare tells whether no request waits for a slot, and one more than one is free.
func (s *Slots) Spare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasSpare()
}

func (s *Slots) hasSpare() bool {
	return s.foreground.waits.requests()+s.background.waits.requests() == 0 && s.limit.now-s.taken.weight(&s.limit) >= 2
}

// End gives the slot back. answered says that the endpoint has answered, or let its time pass.
func (t *Turn) End(answered bool) {
	s, now := t.slots, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[t.cost]--
	s.progress[t.cost] = now
	if t.cost == Scan {
		s.freeScans++
	}
	if answered && t.cost != Unknown { // which says nothing about the endpoint
		s.limit.observe(t.cost, t.began, now, t.calm)
	}
	s.grant()
}

// grant hands the free slots to those whose turn it is. Call with mu held.
func (s *Slots) grant() {
	for s.fits(Cheap) {
		q, w := s.next()
		if w == nil {
			return
		}
		if !s.fits(w.cost) {
			break
		}
		w.calm = s.begin(w.cost)
		s.count(q)
		q.grant(w)
	}
	s.limit.full = s.limit.full || s.foreground.waits.requests()+s.background.waits.requests() > 0
}

// fits tells whether a request may begin: one may, however heavy it is.
func (s *Slots) fits(c Cost) bool {
	taken := s.taken.weight(&s.limit)
	return taken == 0 || taken+s.limit.weight(c) <= s.limit.now
}

// begin takes a slot, and tells whether little is asked.
func (s *Slots) begin(c Cost) (isCalm bool) {
	if s.taken[c] == 0 {
		s.progress[c] = time.Now()
	}
	if c == Scan {
		s.freeScans--
	}
	s.taken[c]++
	return s.taken.weight(&s.limit) <= calm
}

// next is the waiter whose turn it is, and where it waits; nil where none can run now.
func (s *Slots) next() (*queue, *waiter) {
	front, back := s.foreground.next(s.freeScans > 0), s.background.next(s.freeScans > 0)
	if front == nil && back == nil || s.known >= foregroundRun {
		if w := s.nextUnknown(); w != nil {
			return &s.unknown, w
		}
	}
	if back != nil && (front == nil || s.run >= foregroundRun) {
		return &s.background, back
	}
	return &s.foreground, front
}

// unknownShare is the part of the slots that requests of unknown cost may have: one of so many, and at least one.
const unknownShare = 4

func (s *Slots) nextUnknown() *waiter {
	if s.taken[Unknown] >= max(1, int(s.limit.now/unknownShare)) {
		return nil
	}
	return s.unknown.next(true)
}

// count notes whose turn it was.
func (s *Slots) count(q *queue) {
	s.known++
	switch {
	case q == &s.unknown:
		s.known = 0
	case q == &s.background:
		s.run = 0
	case s.background.waits.requests() > 0:
		s.run++
	}
}

// A Load is what an endpoint is asked, and how much it may be asked.
type Load struct {
	InFlight, Waiting int     // requests
	Limit             float64 // of what is asked at a time: in requests, or, where it adapts, in lists
}

// Load is that of now.
func (s *Slots) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{s.taken.requests(), s.foreground.waits.requests() + s.background.waits.requests() + s.unknown.waits.requests(), s.limit.now}
}

// remembered is how long it counts what reads took: a node that was slow then may have recovered since.
const remembered = 5 * time.Second

// Expected is how long it is likely to take until a request that comes now is answered: the
// work ahead of its turn, as much of it at a time as the limit allows, and then what a read
// of its cost took within the last 5 s, 0 if none ended then. Where reads of its cost are under way and
// none has ended for longer, it is that.
func (s *Slots) Expected(r Request) time.Duration {
	r.Cost = r.Cost.known()
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := s.limit.recent[r.Cost]
	if time.Since(s.limit.seen[r.Cost]) > remembered {
		wait = 0
	}
	if r.Cost == Scan {
		wait += s.behindScans(r)
	} else {
		wait += s.behind(r)
	}
	if s.taken[r.Cost] > 0 {
		wait = max(wait, time.Since(s.progress[r.Cost]))
	}
	return wait
}

// behindScans is how long the scans take that wait, and those under way, which are half done.
func (s *Slots) behindScans(r Request) time.Duration {
	if s.freeScans > 0 {
		return s.behind(r)
	}
	ahead := s.foreground.waits[Scan]
	if r.Background {
		ahead += s.background.waits[Scan]
	}
	return s.limit.recent[Scan] * time.Duration(2*ahead+s.taken[Scan]) / time.Duration(2*max(s.taken[Scan], 1))
}

// behind is how long the work before the turn of a request takes: a part of what waits, and
// half of what is under way. Scans delay no other request but by the slots that they take.
func (s *Slots) behind(r Request) time.Duration {
	waits, taken := s.foreground.waits, s.taken
	for c, some := range s.background.waits {
		waits[c] += some
	}
	waits[Scan], taken[Scan] = 0, 0
	waiting := waits.requests()
	if waiting == 0 && s.fits(r.Cost) {
		return 0
	}
	work := taken.work(&s.limit) / 2
	if waiting > 0 {
		work += waits.work(&s.limit) * float64(min(s.turns(r), waiting)) / float64(waiting)
	}
	slots := s.limit.now - float64(s.taken[Scan])*s.limit.weight(Scan) - float64(s.taken[Unknown])*s.limit.weight(Unknown)
	return time.Duration(work / max(slots, weights[Cheap]))
}

// turns is how many of the waiting requests have their turns before a request.
func (s *Slots) turns(r Request) int {
	if r.Background {
		behind := s.background.ahead(r)
		return behind + min(s.foreground.waits.requests(), foregroundRun*(behind+1))
	}
	front := s.foreground.ahead(r)
	return front + min(s.background.waits.requests(), front/foregroundRun)
}
