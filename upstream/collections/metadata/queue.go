package metadata

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// A flight is the lookup of one address, from its place in the queue until what
// it brought has been saved. All pages that want the address share it.
type flight struct {
	span   trace.Span    // of the page that began it
	done   chan struct{} // closed when the fields below are set
	record Record
	ok     bool // false: nothing was learned
}

// wait returns what the flight brings if it ends before the context does. The
// nil flight never began.
func (f *flight) wait(ctx context.Context) (Record, bool) {
	if f == nil {
		return Record{}, false
	}
	select {
	case <-f.done: // wins over a context that has ended
		return f.record, f.ok
	default:
	}
	select {
	case <-f.done:
		return f.record, f.ok
	case <-ctx.Done():
		return Record{}, false
	}
}

// A priority is one of the two lines of the queue.
type priority int

const (
	foreground priority = iota // a page waits for these
	background                 // refreshes, and what exceeds a page's batch
)

// A queue holds the addresses to be asked for, and the flights of these and of
// those being asked for. Addresses that arrive while all workers are busy share
// the next batch, and refreshes fill up the batches that pages wait for. Parts of
// batches that failed, and batches that pages wait for, take turns; refreshes alone
// come last.
type queue struct {
	wake chan struct{} // holds a token when there may be work for an idle worker

	mu       sync.Mutex
	flights  map[string]*flight
	waiting  [2][]string // by priority
	parts    []part
	partNext bool // the last one taken was no part
	room     int  // addresses that still fit
	closed   bool
}

func newQueue(room int) *queue {
	return &queue{wake: make(chan struct{}, 1), flights: map[string]*flight{}, room: room}
}

// join returns a flight for each address: the one there is, or a new one of the
// priority given and the page's trace, or nil if the queue is full or closed.
func (q *queue) join(ctx context.Context, addresses []string, p priority) []*flight {
	if len(addresses) == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	flights := make([]*flight, len(addresses))
	for i, a := range addresses {
		f := q.flights[a]
		if f == nil && q.room > 0 && !q.closed {
			f = &flight{span: trace.SpanFromContext(ctx), done: make(chan struct{})}
			q.flights[a] = f
			q.waiting[p] = append(q.waiting[p], a)
			q.room--
		}
		flights[i] = f
	}
	q.signal()
	return flights
}

// next takes what is to be asked for next, at most n addresses; none if nothing
// waits.
func (q *queue) next(n int) (p part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.partNext = len(q.parts) > 0 && (q.partNext || len(q.waiting[foreground]) == 0)
	if q.partNext {
		p, q.parts = q.parts[0], q.parts[1:]
	} else {
		p = part{addresses: q.batch(n), of: &division{open: 1}}
	}
	q.partNext = !q.partNext
	q.room += len(p.addresses)
	q.signal() // one token may stand for more than one batch
	return p
}

// batch takes at most n addresses. The caller holds the mutex.
func (q *queue) batch(n int) (batch []string) {
	for p := range q.waiting {
		take := min(n-len(batch), len(q.waiting[p]))
		batch = append(batch, q.waiting[p][:take]...)
		q.waiting[p] = q.waiting[p][take:]
	}
	return batch
}

// signal wakes an idle worker if there is work. The caller holds the mutex.
func (q *queue) signal() {
	if len(q.waiting[foreground])+len(q.waiting[background])+len(q.parts) == 0 {
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// finish ends the flight of an address with what was learned. A page that joins
// it from now on, before it is removed, has the record at once.
func (q *queue) finish(address string, r Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f := q.flights[address]; f != nil && !f.ok {
		f.record, f.ok = r, true
		close(f.done)
	}
}

// finished reports whether the flight of an address has ended, or there is none.
func (q *queue) finished(address string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.flights[address]
	return f == nil || f.ok
}

// learned returns the records of those of the addresses whose flights have ended.
func (q *queue) learned(addresses []string) map[string]Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	records := make(map[string]Record, len(addresses))
	for _, a := range addresses {
		if f := q.flights[a]; f != nil && f.ok {
			records[a] = f.record
		}
	}
	return records
}

// release ends what was asked for: the parts wait for their turn, and the flights
// of all other addresses are forgotten. A call that has not ended has failed.
func (q *queue) release(addresses []string, parts []part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	again := map[string]bool{}
	for _, p := range parts {
		q.room -= len(p.addresses)
		for _, a := range p.addresses {
			again[a] = true
		}
	}
	q.parts = append(q.parts, parts...)
	for _, a := range addresses {
		if again[a] {
			continue
		}
		if f := q.flights[a]; f != nil && !f.ok {
			close(f.done)
		}
		delete(q.flights, a)
	}
	q.signal()
}

// close lets no new flight in.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// span is that of a page which waits for one of the addresses, of a sampled
// trace if there is one; nil if no request waits.
func (q *queue) span(addresses []string) (of trace.Span) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range addresses {
		f := q.flights[a]
		if f == nil {
			continue
		}
		if of = f.span; of.SpanContext().IsSampled() {
			break
		}
	}
	return of
}
