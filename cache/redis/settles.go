package redis

import (
	"context"
	"slices"
	"sync"
	"time"
)

// What replicas settle costs Redis little beside being woken and writing to each of them. So an
// answer is settled at once where none was for settleEvery, and those that come within that time of
// the last go together at its end. They go earlier where a caller waits for one of them, here or at
// another replica, or where there are enough.
const (
	settleEvery = 50 * time.Millisecond
	soon        = 4        // the part of settleEvery before its end in which another exchange takes them along
	maxSettled  = 64 << 10 // bytes that go together
)

// settles are the answers on their way to Redis.
type settles struct {
	every time.Duration

	mu   sync.Mutex
	last time.Time       // when some went
	next *settlement     // those that are gathered, nil for none
	held map[string]bool // the entries whose leases are held here: whether another replica waits for one
}

func newSettles() *settles { return &settles{every: settleEvery, held: map[string]bool{}} }

// A settlement are answers that go together, with the caller of the first or with an exchange that
// begins shortly before they are due.
type settlement struct {
	operations []*operation
	entries    []string
	bytes      int
	due        time.Time
	alien      bool          // an exchange has them; valid once full is closed
	full       chan struct{} // closed when nothing more is added
	done       chan struct{} // closed when Redis has answered
}

// hold notes that the lease of an entry is held here.
func (g *settles) hold(entry string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held[entry] = false
}

// drop notes that it is given back without an answer.
func (g *settles) drop(entry string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.held, entry)
}

// hurry has what is settled of an entry go at once: a caller waits for it. That is as true of an
// answer that has not come yet.
func (g *settles) hurry(entry string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.held[entry]; ok {
		g.held[entry] = true
	}
	if g.next != nil && slices.Contains(g.next.entries, entry) {
		g.close()
	}
}

// add adds an operation to those that are gathered, and tells whether it is the first: the caller of
// that waits for the settlement to be due.
func (g *settles) add(o *operation, entry string, bytes int) (b *settlement, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if first = g.next == nil; first {
		g.next = &settlement{due: g.last.Add(g.every), full: make(chan struct{}), done: make(chan struct{})}
	}
	b = g.next
	b.operations, b.entries, b.bytes = append(b.operations, o), append(b.entries, entry), b.bytes+bytes
	if g.held[entry] || time.Until(b.due) <= 0 || len(b.operations) == maxTogether || b.bytes >= maxSettled {
		g.close()
	}
	delete(g.held, entry)
	return b, first
}

// close is called with the lock.
func (g *settles) close() {
	close(g.next.full)
	g.next, g.last = nil, time.Now()
}

// join gives an exchange what is due soon, so that Redis is not woken for that. It is nil for nothing.
func (g *settles) join() *settlement {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.next
	if b == nil || time.Until(b.due) > g.every/soon {
		return nil
	}
	b.alien = true
	g.close()
	return b
}

// await returns when no more is added to b.
func (g *settles) await(b *settlement) {
	pause := time.NewTimer(time.Until(b.due))
	defer pause.Stop()
	select {
	case <-b.full:
	case <-pause.C:
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.next == b {
			g.close()
		}
	}
}

// settleWith does an operation on an entry together with others.
func (s *Store) settleWith(ctx context.Context, o *operation, entry string, bytes int) error {
	b, first := s.settles.add(o, entry, bytes)
	if first {
		s.settles.await(b)
	}
	if !first || b.alien {
		<-b.done
		return o.err
	}
	defer close(b.done)
	return s.exchange(ctx, time.Now().Add(s.o.Timeout), b.operations)
}
