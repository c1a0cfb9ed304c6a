package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cache/ahead"
)

// This file is the lookup, in the order in which a request goes through
// it. What a flight needs to be safe is in flight.go, and what it has to do with
// those of other replicas is in lease.go.

// maxFlights bounds how many flights of others a caller joins, one after the
// other, in the hope of an answer that is new enough for it.
const maxFlights = 8

// Get answers q, from the nearest place that has an answer new enough, and
// asks origin if there is none. A caller waits no longer than its ctx, but for
// one read of the shared store, within that store's timeout; the flight it
// started goes on without it. When the origin fails, or there is no time or room
// to wait for it, an entry that q.Policy keeps for errors is served with the
// failure in Result.Err; without such an entry the failure is the error: the
// origin's own, ctx's or [ErrOverloaded].
//
// An entry may be below q.MinHeight, or older than q.Policy wants it,
// only if the origin has given it since Get was called: it has nothing better then.
func (c *Cache) Get(ctx context.Context, q Query, origin Origin) (Result, error) {
	ch := c.chain.Load()
	at, _ := ch.memory.GetIfPresent(q.Key)
	if at != nil && at.warmed.Load() && at.warmed.CompareAndSwap(true, false) {
		c.taken(&q, at.entry, true, "", origin)
	}
	switch q.state(at, c.o.Now()) {
	case Fresh:
		return c.hit(at, Hit), nil
	case Stale:
		if c.revalidationWait(&q, at) == 0 {
			c.revalidate(ctx, ch, at, q, origin)
			return c.hit(at, StaleHit), nil
		}
	case StaleIfError:
		// Once the origin has failed nobody waits for it until it is well:
		// a stalled one would hold up every caller. Nor does anybody who would be
		// given this entry in the end.
		err := at.failure()
		if err == nil && c.hopeless(&q, at) {
			err = errSlow
		}
		if err != nil {
			c.revalidate(ctx, ch, at, q, origin)
			c.count(StaleError, inMemory)
			return Result{Entry: at.entry, Outcome: StaleError, Store: inMemory, Err: err}, nil //nolint:nilerr // the entry is the answer
		}
	}
	c.noteAhead(ch, at, &q, origin)
	res, err := c.wait(ctx, ch, q, origin, at)
	c.count(res.Outcome, res.Store)
	return res, err
}

// Fresh answers q as Get would from an entry in memory that is fresh now; ok is
// false where memory has none, and nothing is done about that.
func (c *Cache) Fresh(q Query, now time.Time) (res Result, ok bool) {
	at, _ := c.chain.Load().memory.GetIfPresent(q.Key)
	if q.state(at, now) != Fresh || at.warmed.Load() { // Get has to tell of it
		return res, false
	}
	return c.hit(at, Hit), true
}

// hit is a finished request that memory has answered.
func (c *Cache) hit(at *slot, o Outcome) Result {
	at.ask()
	c.count(o, inMemory)
	return Result{Entry: at.entry, Outcome: o, Store: inMemory}
}

// ask counts a request for the entry. Once there are enough that takes a load and
// no more, so that callers on many processors do not get into each other's way.
func (s *slot) ask() {
	if s.asks.Load() < ahead.Often {
		s.asks.Add(1)
	}
}

// count counts a finished request.
func (c *Cache) count(o Outcome, store string) {
	c.counts.requests[o][slices.Index(stores[:], store)].Add(1)
}

// wait answers q from a flight; for a key that memory does not have, one read of
// the shared store may do. A caller for whom the shared store was silent does not
// wait for it again: its flight goes to the origin at once.
func (c *Cache) wait(ctx context.Context, ch *chain, q Query, origin Origin, at *slot) (Result, error) {
	defer c.waiting.Add(-1)
	if c.waiting.Add(1) > int64(c.o.MaxWaiters) {
		return c.serveStale(ch, &q, flightResult{}, ErrOverloaded)
	}
	f := flight{c: c, ch: ch, q: q, origin: origin}
	if at == nil && ch.shares(&q) {
		read, found, err := c.lookupShared(ctx, ch, q)
		if found != nil {
			c.taken(&q, found.entry, true, "", origin)
		}
		if q.state(found, c.o.Now()) == Fresh || q.state(found, c.o.Now()) == Stale && c.revalidationWait(&q, found) == 0 {
			return c.serve(ctx, ch, q, origin, flightResult{at: found, store: inShared}, true), nil
		}
		at, f.read, f.sharedSilent = found, read, err != nil
	}
	w := c.newWait(&q, at)
	for try := range maxFlights {
		r, own, err := f.join(ctx, w)
		f.read = nil // what the next flight finds is newer
		if errors.Is(err, ErrYielded) {
			continue // a read ahead, which had no room: the next flight is a caller's
		}
		if err != nil {
			return c.serveStale(ch, &q, r, err)
		}
		// A flight that another caller began may have brought too low a height
		// or too old a reading for this one. The next begins after that: if it
		// has asked the origin, then as late as this caller's own could have.
		state := q.state(r.at, c.o.Now())
		if own || state == Fresh || try > 0 && r.store == fromOrigin || state == Stale && w.left(Stale) <= 0 {
			return c.serve(ctx, ch, q, origin, r, own), nil
		}
	}
	return c.serveStale(ch, &q, flightResult{}, ErrOverloaded)
}

// join starts the flight of the key or joins the one under way, and waits for
// it to land, or as long as w says if there is something else to give. own tells
// a caller whose flight it was.
func (f flight) join(ctx context.Context, w wait) (r flightResult, own bool, err error) {
	var started atomic.Bool // read also while the flight is under way
	landed := f.ch.flights.DoChan(f.q.Key, func() (any, error) {
		started.Store(true)
		return f.c.fly(ctx, &f)
	})
	patience := time.NewTimer(w.left(Stale))
	defer patience.Stop()
	for {
		select {
		case r := <-landed:
			return r.Val.(flightResult), started.Load(), r.Err
		case <-patience.C:
			at, _ := f.ch.memory.GetIfPresent(f.q.Key)
			state := f.q.state(at, f.c.o.Now())
			left := w.left(state)
			switch {
			case state == Fresh: // it has just landed
			case left > 0:
				patience.Reset(left)
			case state <= StaleIfError:
				f.c.giveUp(at, &f.q, started.Load())
				return flightResult{at: at, store: inMemory, forward: "stale"}, false, errSlow
			}
		case <-ctx.Done():
			return flightResult{}, false, ctx.Err()
		}
	}
}

// run is the flight: memory once more, the shared store, the origin.
func (f *flight) run(ctx context.Context) (flightResult, error) {
	// Between a caller's look into memory and the start of its flight, the
	// flight before may have landed: without this look its answer would be
	// fetched twice.
	at, _ := f.ch.memory.GetIfPresent(f.q.Key)
	if f.q.state(at, f.c.o.Now()) == Fresh {
		return flightResult{at: at, store: inMemory}, nil
	}
	found := f.acquire(ctx, at)
	if found.enough {
		return flightResult{at: found.at, store: inShared}, nil
	}
	r, err := f.ask(ctx, found)
	f.release(ctx, found.lease, r, err)
	return r, err
}

// ask has the origin answer, and keeps what it says.
func (f *flight) ask(ctx context.Context, found lookupResult) (flightResult, error) {
	r := flightResult{at: found.at, store: found.store}
	if err := ctx.Err(); err != nil {
		return r, fmt.Errorf("cache: waiting for another replica: %w", err)
	}
	r.forward = "uri-miss"
	if r.at != nil {
		r.forward = "stale"
		if f.q.Policy.State(r.at.entry, f.q.Tip, f.c.o.Now()) == Fresh {
			r.forward = "request" // which wanted a newer one
		}
	}
	e, err := f.fetch(ctx, r.at.known())
	if errors.Is(err, ErrYielded) {
		return r, err
	}
	if err == nil && f.newerThanAnswer(r.at, e) {
		err = ErrBehind
	}
	if err != nil {
		f.c.counts.originErrors.Add(1)
		if r.at != nil {
			r.at.fail(f.c.o.Now(), err)
		}
		return r, err
	}
	r.at, r.store = f.keep(e), fromOrigin
	return r, nil
}

// serve makes a result of what a flight brought.
func (c *Cache) serve(ctx context.Context, ch *chain, q Query, origin Origin, r flightResult, own bool) Result {
	r.at.ask()
	res := Result{Entry: r.at.entry, Outcome: Miss, Store: r.store, Forward: r.forward, Collapsed: !own}
	if r.store == fromOrigin {
		if !own {
			c.counts.collapsed.Add(1)
		}
		return res
	}
	res.Outcome = Hit
	if q.state(r.at, c.o.Now()) != Fresh {
		res.Outcome = StaleHit
		c.revalidate(ctx, ch, r.at, q, origin)
	}
	return res
}

// serveStale answers q after a failure, from what the flight had at hand or
// memory has by now. An origin that is behind has nothing better than the oldest
// entry.
func (c *Cache) serveStale(ch *chain, q *Query, r flightResult, failure error) (Result, error) {
	at, store := r.at, r.store
	if at == nil {
		store = inMemory
		at, _ = ch.memory.GetIfPresent(q.Key)
	}
	res := Result{Store: store, Forward: r.forward}
	switch state := q.state(at, c.o.Now()); {
	case state == Fresh:
		res.Outcome = Hit
	case state == Stale:
		res.Outcome = StaleHit
	case state == StaleIfError, errors.Is(failure, ErrBehind) && q.usableAtAnyAge(at, c.o.Now()):
		res.Outcome, res.Err = StaleError, failure
	default:
		return Result{}, failure
	}
	at.ask()
	res.Entry = at.entry
	return res, nil
}
