package metadata

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/upstream"
)

// A flight is the lookup of one address, from queueing until the result is saved. All pages with the address share it.
type flight struct {
	address string
	span    trace.Span    // of the page that started it
	before  Record        // the Store's record, read by the worker
	done    chan struct{} // closed when the fields below are set
	record  Record
	ok      bool // record is set
}

// end sets the result. The worker calls it at most once.
func (f *flight) end(r Record) {
	f.record, f.ok = r, true
	close(f.done)
}

// wait returns the result if the flight ends before the context. A nil flight was not started.
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

// unknown returns the flights without a result.
func unknown(flights []*flight) []*flight {
	return slices.DeleteFunc(slices.Clone(flights), func(f *flight) bool { return f.ok })
}

// A priority selects one of the two lines of the queue.
type priority int

const (
	foreground priority = iota // a page waits for these
	background                 // refreshes, and contracts beyond a page's first batch
)

// A queue holds the queued addresses, and the flights of queued and requested addresses. Addresses that arrive while all
// workers are busy share the next batch. Refreshes fill the batches for which pages wait. Parts of failed batches
// alternate with batches for which pages wait. Batches with only refreshes come last.
type queue struct {
	wake chan struct{} // holds a token when there may be work for an idle worker

	mu       sync.Mutex
	flights  map[string]*flight
	waiting  [2][]*flight // by priority
	parts    []part
	partNext bool // the next one may be a part
	capacity int  // number of addresses that can still be queued
	reserved int  // part of the capacity that is for foreground
	closed   bool
}

func newQueue(capacity int) *queue {
	return &queue{wake: make(chan struct{}, 1), flights: map[string]*flight{}, capacity: capacity, reserved: capacity / 2}
}

// join returns the current flight of each address, or starts one with a priority and the page's trace. It returns nil for an
// address if the queue is full or closed. Background may use half of the capacity.
func (q *queue) join(ctx context.Context, addresses []string, p priority) []*flight {
	if len(addresses) == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	reserved := 0
	if p == background {
		reserved = q.reserved
	}
	flights := make([]*flight, len(addresses))
	for i, a := range addresses {
		f := q.flights[a]
		if f == nil && q.capacity > reserved && !q.closed {
			f = &flight{address: a, span: trace.SpanFromContext(ctx), done: make(chan struct{})}
			q.flights[a] = f
			q.waiting[p] = append(q.waiting[p], f)
			q.capacity--
		}
		flights[i] = f
	}
	q.signal()
	return flights
}

// next removes and returns the next part or batch of at most n addresses. It is empty if nothing is queued.
func (q *queue) next(n int) (p part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.partNext = len(q.parts) > 0 && (q.partNext || len(q.waiting[foreground]) == 0)
	if q.partNext {
		p, q.parts = q.parts[0], q.parts[1:]
	} else {
		p = part{divisions: new(atomic.Int64)}
		for line, waiting := range q.waiting {
			take := min(n-len(p.flights), len(waiting))
			p.flights = append(p.flights, waiting[:take]...)
			q.waiting[line] = waiting[take:]
		}
	}
	q.partNext = !q.partNext
	q.capacity += len(p.flights)
	q.signal() // one token may represent several batches
	return p
}

// signal wakes an idle worker if there is work. The caller must hold mu.
func (q *queue) signal() {
	if len(q.waiting[foreground])+len(q.waiting[background])+len(q.parts) > 0 {
		upstream.Wake(q.wake)
	}
}

// release removes the flights of a part and queues the parts into which it was divided. Flights without a result wait again if
// the part was divided, and otherwise have failed.
func (q *queue) release(flights []*flight, into []part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parts = append(q.parts, into...)
	for _, f := range flights {
		switch {
		case f.ok:
		case len(into) > 0:
			q.capacity--
			continue
		default:
			close(f.done)
		}
		delete(q.flights, f.address)
	}
	q.signal()
}

// close prevents new flights.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}
