package metadata

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// A flight is the lookup of one address, from its place in the queue until
// what it brought has been saved. Everybody who wants the address shares it.
type flight struct {
	span   trace.Span    // of the page that began it
	landed chan struct{} // closed when the fields below are set
	record Record
	ok     bool // false: nothing was learned
}

// wait returns what the flight brings if it lands before the context ends.
// The nil flight never took off.
func (f *flight) wait(ctx context.Context) (Record, bool) {
	if f == nil {
		return Record{}, false
	}
	select {
	case <-f.landed: // wins over a context that has ended
		return f.record, f.ok
	default:
	}
	select {
	case <-f.landed:
		return f.record, f.ok
	case <-ctx.Done():
		return Record{}, false
	}
}

// A lane is one of the two lines of the queue.
type lane int

const (
	ahead  lane = iota // a page waits for these
	behind             // refreshes, and what exceeds a page's batch
)

// A queue holds the addresses to be asked for, and the flights of these and of
// those being asked for. Addresses that arrive while all workers are busy share
// the next batch, and refreshes fill up the batches that pages wait for.
type queue struct {
	wake chan struct{} // holds a token when there may be work for an idle worker

	mu      sync.Mutex
	flights map[string]*flight
	lanes   [2][]string
	room    int // addresses that still fit in the lanes
	closed  bool
}

func newQueue(room int) *queue {
	return &queue{wake: make(chan struct{}, 1), flights: map[string]*flight{}, room: room}
}

// join returns a flight for each address: the one there is, or a new one in
// the given lane and the page's trace, or nil if the queue is full or closed.
func (q *queue) join(ctx context.Context, addresses []string, l lane) []*flight {
	if len(addresses) == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	flights := make([]*flight, len(addresses))
	for i, a := range addresses {
		f := q.flights[a]
		if f == nil && q.room > 0 && !q.closed {
			f = &flight{span: trace.SpanFromContext(ctx), landed: make(chan struct{})}
			q.flights[a] = f
			q.lanes[l] = append(q.lanes[l], a)
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
	for l := range q.lanes {
		take := min(n-len(batch), len(q.lanes[l]))
		batch = append(batch, q.lanes[l][:take]...)
		q.lanes[l] = q.lanes[l][take:]
	}
	q.room += len(batch)
	q.signal() // one token may stand for more than one batch
	return batch
}

// signal wakes an idle worker if there is work. The caller holds the mutex.
func (q *queue) signal() {
	if len(q.lanes[ahead])+len(q.lanes[behind]) == 0 {
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// land ends the flight of an address with what was learned. Who joins it from
// now on, before it is removed, has the record at once.
func (q *queue) land(address string, r Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f := q.flights[address]; f != nil && !f.ok {
		f.record, f.ok = r, true
		close(f.landed)
	}
}

// learned returns the records of those of the addresses that have landed.
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

// remove forgets the flights of the addresses; those still up have failed.
func (q *queue) remove(addresses []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range addresses {
		if f := q.flights[a]; f != nil && !f.ok {
			close(f.landed)
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
