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
// the next batch, and refreshes fill up the batches that pages wait for.
type queue struct {
	wake chan struct{} // holds a token when there may be work for an idle worker

	mu      sync.Mutex
	flights map[string]*flight
	waiting [2][]string // by priority
	room    int         // addresses that still fit
	closed  bool
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

// next takes the next batch of at most n addresses; nil if there is none.
func (q *queue) next(n int) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch []string
	for p := range q.waiting {
		take := min(n-len(batch), len(q.waiting[p]))
		batch = append(batch, q.waiting[p][:take]...)
		q.waiting[p] = q.waiting[p][take:]
	}
	q.room += len(batch)
	q.signal() // one token may stand for more than one batch
	return batch
}

// signal wakes an idle worker if there is work. The caller holds the mutex.
func (q *queue) signal() {
	if len(q.waiting[foreground])+len(q.waiting[background]) == 0 {
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

// remove forgets the flights of the addresses; those that have not ended failed.
func (q *queue) remove(addresses []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range addresses {
		if f := q.flights[a]; f != nil && !f.ok {
			close(f.done)
		}
		delete(q.flights, a)
	}
}

// close lets no new flight in.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// span is that of a page which waits for one of the addresses, of a sampled
// trace if there is one; nil if nobody waits.
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
