// Package queue limits the concurrent requests of an endpoint. It determines how many slots there are (limit.go), whose
// turn it is (queue.go), and how long a new request is expected to take (slots.go).
package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// foregroundRun is the maximum number of consecutive slots for the foreground while the background waits.
const foregroundRun = 3

// ErrLate is the error for a request that got no turn in time.
var ErrLate = errors.New("no turn in time")

// A Request is a request for a slot.
type Request struct {
	Client     string // clients take turns
	Cost       Cost   // one Scan runs at a time; Unknown requests get at most a quarter of the slots
	Miss       bool   // it precedes the client's other requests, except for every fourth turn
	Background bool   // it yields to foreground requests, and waits until its context ends
	Ahead      bool   // read ahead: it needs spare capacity and does not wait
}

// Options of Slots.
type Options struct {
	Limit   int           // maximum number of concurrent requests; 0 adapts it to the endpoint
	MaxWait time.Duration // how long foreground requests wait; scans and background requests wait until their context ends

	// Headers returns the number of the endpoint's block headers that arrived with the usual delay, and of those that
	// arrived later or are overdue. The counts never decrease. Required if Limit is 0.
	Headers func() (punctual, late int64)
}

// Slots hands out the slots of an endpoint. Clients take turns (queue.go), and the foreground precedes the background.
// It is safe for concurrent use.
type Slots struct {
	patience time.Duration

	mu                     sync.Mutex
	limit                  limit
	taken                  load
	foreground, background queue
	unknown                queue
	run                    int              // consecutive slots of the foreground while the background waits
	sinceUnknown           int              // slots since the last one of an Unknown request
	progress               [costs]time.Time // when a request of the cost last ended, or the first one in flight began
}

// New returns Slots without requests in flight.
func New(o Options) *Slots {
	return &Slots{patience: o.MaxWait, limit: newLimit(o.Limit, o.Headers)}
}

// A load is the number of requests of each cost.
type load [costs]int

func (n *load) requests() int { return n[Cheap] + n[Page] + n[Scan] + n[Unknown] }

func (n *load) weight(l *limit) (sum float64) {
	for c, count := range n {
		sum += float64(count) * l.weight(Cost(c))
	}
	return sum
}

// work returns the total duration of the requests, weighted.
func (n *load) work(l *limit) (sum float64) {
	for c, count := range n {
		sum += float64(count) * l.weight(Cost(c)) * float64(l.recent[c])
	}
	return sum
}

// A Turn is an acquired slot.
type Turn struct {
	slots *Slots
	cost  Cost
	began time.Time
	calm  bool // the load was low when it began
}

// Acquire waits for a slot. The error is ErrLate, upstream.ErrYielded or ctx.Err().
func (s *Slots) Acquire(ctx context.Context, r Request) (*Turn, error) {
	if r.Ahead {
		return s.acquireSpare(r)
	}
	queue, patience := &s.foreground, s.patience
	switch {
	case r.Cost == Unknown:
		queue = &s.unknown
	case r.Background:
		queue, patience = &s.background, forever
	case r.Cost == Scan: // only one runs at a time, so its turn may be late although the endpoint has capacity
		patience = forever
	}
	s.mu.Lock()
	w := queue.push(r)
	s.grant()
	if err := queue.wait(ctx, &s.mu, w, patience); err != nil { // unlocks mu
		return nil, err
	}
	turn := &Turn{s, r.Cost, time.Now(), w.calm}
	if err := ctx.Err(); err != nil { // its time ended as its turn came
		turn.End(false)
		return nil, err
	}
	return turn, nil
}

// acquireSpare acquires a slot for a read that no client waits for.
func (s *Slots) acquireSpare(r Request) (*Turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasSpare() || r.Cost == Scan && s.taken[Scan] > 0 {
		return nil, upstream.ErrYielded
	}
	return &Turn{s, r.Cost, time.Now(), s.begin(r.Cost)}, nil
}

// Spare reports whether no request waits for a slot, except those of unknown cost, and capacity remains for two more.
func (s *Slots) Spare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasSpare()
}

func (s *Slots) hasSpare() bool {
	return s.waiting() == 0 && s.limit.now-s.taken.weight(&s.limit) >= 2
}

// End releases the slot. answered reports whether the endpoint answered or timed out.
func (t *Turn) End(answered bool) {
	s, now := t.slots, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[t.cost]--
	s.progress[t.cost] = now
	if answered && t.cost != Unknown { // unknown requests reveal nothing about the endpoint
		s.limit.observe(t.cost, t.began, now, t.calm)
	}
	s.grant()
}

// grant gives the free slots to the waiters whose turn it is. The caller must hold mu.
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
		s.countTurn(q)
		q.grant(w)
	}
	s.limit.full = s.limit.full || s.waiting() > 0
}

// waiting returns the number of waiting requests, except those of unknown cost.
func (s *Slots) waiting() int { return s.foreground.waits.requests() + s.background.waits.requests() }

// fits reports whether a request may begin. A single request always may.
func (s *Slots) fits(c Cost) bool {
	taken := s.taken.weight(&s.limit)
	return taken == 0 || taken+s.limit.weight(c) <= s.limit.now
}

// begin takes a slot, and reports whether the load is low.
func (s *Slots) begin(c Cost) (isCalm bool) {
	if s.taken[c] == 0 {
		s.progress[c] = time.Now()
	}
	s.taken[c]++
	return s.taken.weight(&s.limit) <= calmLoad
}

// next returns the waiter whose turn it is and its queue. The waiter is nil if none can run now.
func (s *Slots) next() (*queue, *waiter) {
	scans := s.taken[Scan] == 0
	front, back := s.foreground.next(scans), s.background.next(scans)
	if front == nil && back == nil || s.sinceUnknown >= foregroundRun {
		if w := s.nextUnknown(); w != nil {
			return &s.unknown, w
		}
	}
	if back != nil && (front == nil || s.run >= foregroundRun) {
		return &s.background, back
	}
	return &s.foreground, front
}

// unknownShare is the divisor of the limit for requests of unknown cost. At least one of them may run.
const unknownShare = 4

func (s *Slots) nextUnknown() *waiter {
	if s.taken[Unknown] >= max(1, int(s.limit.now/unknownShare)) {
		return nil
	}
	return s.unknown.next(true)
}

func (s *Slots) countTurn(q *queue) {
	s.sinceUnknown++
	switch {
	case q == &s.unknown:
		s.sinceUnknown = 0
	case q == &s.background:
		s.run = 0
	case s.background.waits.requests() > 0:
		s.run++
	}
}

// A Load is the load and the limit of an endpoint.
type Load struct {
	InFlight, Waiting int     // requests
	Limit             float64 // of concurrent requests; in lists if the limit adapts
}

// Load returns the current load.
func (s *Slots) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{s.taken.requests(), s.waiting() + s.unknown.waits.requests(), s.limit.now}
}

// remembered is how long the durations of reads count, because a slow node may recover.
const remembered = 5 * time.Second

// Expected returns the expected duration of a new request: the work before its turn, divided by the limit, plus the
// recent duration of reads of its cost. The latter is 0 if none ended within the last 5 s. If reads of its cost are in
// flight and none has ended for longer than this sum, Expected returns that time.
func (s *Slots) Expected(r Request) time.Duration {
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

// behindScans returns the time for the waiting scans and for half of the one in flight.
func (s *Slots) behindScans(r Request) time.Duration {
	if s.taken[Scan] == 0 {
		return s.behind(r)
	}
	ahead := s.foreground.waits[Scan]
	if r.Background {
		ahead += s.background.waits[Scan]
	}
	return s.limit.recent[Scan] * time.Duration(2*ahead+1) / 2
}

// behind returns the time for the work before a request's turn: a part of the waiting requests, and half of those in
// flight. Scans delay other requests only by the slots that they use.
func (s *Slots) behind(r Request) time.Duration {
	waits, taken := s.foreground.waits, s.taken
	for c, count := range s.background.waits {
		waits[c] += count
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

// turns returns the number of waiting requests that have their turns before a request.
func (s *Slots) turns(r Request) int {
	if r.Background {
		before := s.background.ahead(r)
		return before + min(s.foreground.waits.requests(), foregroundRun*(before+1))
	}
	front := s.foreground.ahead(r)
	return front + min(s.background.waits.requests(), front/foregroundRun)
}
