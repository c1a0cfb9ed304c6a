package metadata

import (
	"context"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// A flight is the lookup of one address, from its place in the queue until what
// it brought has been saved. All pages that want the address share it.
type flight struct {
	address string
	span    trace.Span    // of the page that began it
	before  Record        // what the Store has, as its worker has read it
	done    chan struct{} // closed when the fields below are set
	record  Record
	ok      bool // false: nothing was learned
}

// end is called once, by the worker that the flight is with.
func (f *flight) end(r Record) {
	f.record, f.ok = r, true
	close(f.done)
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

// unknown are the flights that have brought nothing yet.
func unknown(flights []*flight) []*flight {
	return slices.DeleteFunc(slices.Clone(flights), func(f *flight) bool { return f.ok })
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
	waiting  [2][]*flight // by priority
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
			f = &flight{address: a, span: trace.SpanFromContext(ctx), done: make(chan struct{})}
			q.flights[a] = f
			q.waiting[p] = append(q.waiting[p], f)
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
		p = part{of: &division{open: 1}}
		for line, waiting := range q.waiting {
			take := min(n-len(p.flights), len(waiting))
			p.flights = append(p.flights, waiting[:take]...)
			q.waiting[line] = waiting[take:]
		}
	}
	q.partNext = !q.partNext
	q.room += len(p.flights)
	q.signal() // one token may stand for more than one batch
	return p
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

// release forgets the flights of a part. Those that have brought nothing have failed or, where
// the part is divided, wait for their turn again.
func (q *queue) release(flights []*flight, into []part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parts = append(q.parts, into...)
	for _, f := range flights {
		switch {
		case f.ok:
		case len(into) > 0:
			q.room--
			continue
		default:
			close(f.done)
		}
		delete(q.flights, f.address)
	}
	q.signal()
}

// close lets no new flight in.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}
