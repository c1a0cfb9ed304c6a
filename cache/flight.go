package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// landing is what a flight came back with. Beside an error, at is the newest
// entry that was at hand before, nil for none.
type landing struct {
	at      *held
	store   string
	forward string
}

// flight is one look-up of a key below memory, for all who wait for it.
type flight struct {
	c      *Cache
	ch     *chain
	q      Query
	origin Origin
	accept State // the worst state in which a stored entry ends the flight
}

// fly runs the flight of a key. A stale entry of the shared store is good
// enough for callers who wait (accept Stale), and not for a flight that is to
// replace one (accept Fresh).
func (c *Cache) fly(ctx context.Context, ch *chain, q Query, origin Origin, accept State) (landing, error) {
	if !c.begin() {
		return landing{}, errClosed
	}
	defer c.tasks.Done()
	c.counts.flights.Add(1)
	ch.lookups.beginFlight(q.Key)
	defer ch.lookups.endFlight(q.Key)
	f := &flight{c: c, ch: ch, q: q, origin: origin, accept: accept}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.FlightTimeout)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	ctx, span := startSpan(ctx, "cache.flight")
	l, err := f.run(ctx)
	f.endFlight(span, l, err)
	return l, err
}

func (f *flight) run(ctx context.Context) (landing, error) {
	// Between a caller's look into memory and the start of its flight, the
	// flight before may have landed: without this look its answer would be
	// fetched twice.
	prev := f.ch.memory.get(f.q.Key)
	if f.q.state(prev, f.c.o.Now()) <= f.accept {
		return landing{at: prev, store: inMemory}, nil
	}
	found := f.consult(ctx, prev)
	defer found.lease.abandon(ctx)
	if found.enough {
		return landing{at: found.at, store: inShared}, nil
	}
	if err := ctx.Err(); err != nil {
		return landing{at: found.at, store: found.store}, fmt.Errorf("cache: waiting for another replica: %w", err)
	}
	return f.ask(ctx, found)
}

// ask has the origin answer, and keeps what it says.
func (f *flight) ask(ctx context.Context, found finding) (landing, error) {
	l := landing{at: found.at, store: found.store, forward: "stale"}
	var prev *Entry
	if l.at == nil {
		l.forward = "uri-miss"
	} else {
		prev = l.at.entry
		if f.q.Policy.State(prev, f.q.Tip, f.c.o.Now()) == Fresh {
			l.forward = "request" // which wanted a newer one
		}
	}
	entry, err := f.fetch(ctx, prev)
	if err != nil {
		f.c.counts.originErrors.Add(1)
		if l.at != nil {
			l.at.fail(f.c.o.Now(), err)
		}
		return l, err
	}
	// Memory first: who comes now need not wait for the shared store.
	l.at, l.store = f.keep(entry), fromOrigin
	found.lease.settle(ctx, l.at.entry)
	return l, nil
}

// keep puts e into memory, and gives what is held there then: a newer entry may
// have come between. If that serves worse (it is of unknown height, but was read
// later), this flight's callers are given e all the same.
func (f *flight) keep(e *Entry) *held {
	now := f.c.o.Now()
	h, mine := f.ch.memory.put(f.q.Key, e), &held{entry: e}
	if f.q.state(h, now) > f.q.state(mine, now) {
		return mine
	}
	return h
}

// fetch calls the origin. A panic there would end the process, for the flight
// runs on a goroutine of its own; it becomes an error.
func (f *flight) fetch(ctx context.Context, prev *Entry) (e *Entry, err error) {
	defer func() {
		if p := recover(); p != nil {
			f.c.o.Logger.Error("origin panicked", "key", f.q.Key, "panic", p, "stack", string(debug.Stack()))
			e, err = nil, fmt.Errorf("cache: origin panicked: %v", p)
		}
	}()
	f.c.counts.originCalls.Add(1)
	e, err = f.origin(ctx, prev)
	if err == nil && (e == nil || e.Content == nil) {
		return nil, errors.New("cache: origin gave neither an entry nor an error")
	}
	return e, err
}
