package cache

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/cache/freshness"
)

// maxFlights bounds how many flights of others a caller joins, one after the
// other, in the hope of an answer that is new enough for it.
const maxFlights = 8

// request is one query on its way through a chain's part of the cache.
type request struct {
	c      *Cache
	ch     *chain
	q      Query
	origin Origin
}

// Get answers q, from the nearest place that has an answer new enough, and
// asks origin if there is none. A caller waits until its ctx ends, except for
// one read of the shared store, within that store's timeout, and for a flight
// that it runs itself (see join); another flight that it started goes on without it. When the origin fails, or there is no time or room
// to wait for it, an entry that q.Policy keeps for errors is served with the
// failure in Result.Err; without such an entry the failure is the error: the
// origin's own, ctx's or [ErrOverloaded].
//
// An entry may be below q.MinHeight, or older than q.Policy wants it,
// only if the origin has given it since Get was called: it has nothing better then.
func (c *Cache) Get(ctx context.Context, q Query, origin Origin) (Result, error) {
	ch := c.chain.Load()
	at, _ := ch.memory.GetIfPresent(q.Key)
	if q.judge(at, c.o.Now) == Fresh && !at.unaudited.Load() {
		return c.hit(at), nil
	}
	r := &request{c: c, ch: ch, q: q, origin: origin}
	if at != nil && at.unaudited.CompareAndSwap(true, false) {
		r.taken(at.entry, true, "")
	}
	res, err := r.answer(ctx, at)
	c.counts.finished(res.Outcome, res.Store)
	return res, err
}

// Fresh answers q as Get would from an entry in memory that is fresh now, and is of
// use to the caller; nil is for all. ok is false where memory has none, and nothing is
// done or counted then.
func (c *Cache) Fresh(q Query, now time.Time, of func(*Entry) (use bool)) (res Result, ok bool) {
	at, _ := c.chain.Load().memory.GetIfPresent(q.Key)
	if q.judge(at, func() time.Time { return now }) != Fresh || at.unaudited.Load() || of != nil && !of(at.entry) { // Get has to tell of it
		return res, false
	}
	return c.hit(at), true
}

// Peek gives the entry that Get would give at once, nil for none, and leaves no trace of that.
func (c *Cache) Peek(q Query) *Entry {
	at := c.chain.Load().memory.peek(q.Key)
	if q.judge(at, c.o.Now) != Fresh {
		return nil
	}
	return at.entry
}

func (q *Query) requires() *freshness.Requirement {
	return &freshness.Requirement{Policy: &q.Policy, Tip: q.Tip, MinHeight: q.MinHeight, MaxHeight: q.MaxHeight}
}

// judge judges a slot of memory, which may be nil.
func (q *Query) judge(s *slot, now freshness.Clock) State {
	if s == nil {
		return Expired
	}
	return q.requires().Judge(s.entry.Stamp(), now)
}

// Stamp is what the entry's freshness is judged by.
func (e *Entry) Stamp() *freshness.Stamp {
	return &freshness.Stamp{Height: e.Height, ReadAt: e.ReadAt, Expires: e.Expires, Status: e.Status, Lasting: e.Source != 0}
}

func (e *Entry) expired(now freshness.Clock) bool { return e.Stamp().Expired(now) }

// hit is a finished request that memory has answered.
func (c *Cache) hit(at *slot) Result {
	at.hit()
	c.counts.finished(Hit, inMemory)
	return Result{Entry: at.entry, Outcome: Hit, Store: inMemory}
}

// hit counts that the entry was given. Once there are enough hits to read the key ahead
// it loads and does not store, so that callers on many processors do not get into each
// other's way.
func (s *slot) hit() {
	if s.hits.Load() < ahead.Often {
		s.hits.Add(1)
	}
}

// finished counts a finished request.
func (n *counts) finished(o Outcome, store string) {
	switch by := &n.requests[o]; store {
	case inMemory:
		by[1].Add(1)
	case inShared:
		by[2].Add(1)
	default:
		by[0].Add(1)
	}
}

// answer gives what memory has, fresh or not, where waiting is of no use, and else what
// a flight brings.
func (r *request) answer(ctx context.Context, at *slot) (Result, error) {
	f, store := flight{request: r}, inMemory
	if told := r.renew(at); told != at {
		r.noteAhead(at)
		at, f.told, store = told, told, inShared
	}
	switch outcome, err := r.c.decide(r.ch, &r.q, at); outcome {
	case Hit, StaleHit:
		return r.serve(ctx, flightResult{at: at, store: store}, true), nil
	case StaleError:
		r.revalidate(ctx, at)
		return Result{Entry: at.entry, Outcome: StaleError, Store: store, Err: err}, nil
	}
	r.noteAhead(at)
	defer r.c.waiting.Add(-1)
	if r.c.waiting.Add(1) > int64(r.c.o.MaxWaiters) {
		return r.standIn(flightResult{}, ErrOverloaded)
	}
	if at == nil && r.ch.shares(&r.q) {
		at = f.readShared(ctx)
		if outcome, _ := r.c.decide(r.ch, &r.q, at); outcome == Hit || outcome == StaleHit {
			return r.serve(ctx, flightResult{at: at, store: inShared}, true), nil
		}
	}
	return f.wait(ctx, r.c.newWait(&r.q, at))
}

// decide returns what a Get of q does with at, the entry of a store, nil for none. Hit and StaleHit
// serve it at once. StaleError serves it because of err. Miss waits for a newer entry.
func (c *Cache) decide(ch *chain, q *Query, at *slot) (outcome Outcome, err error) {
	switch q.judge(at, c.o.Now) {
	case Fresh:
		return Hit, nil
	case Stale:
		if c.revalidationWait(q, at) == 0 {
			return StaleHit, nil
		}
	case StaleIfError:
		if err := c.failure(ch, q.Key, at); err != nil {
			return StaleError, err
		}
		if c.expected(q, at) > c.errorPatience() { // the caller would get this entry in the end
			return StaleError, errSlow
		}
	}
	return Miss, nil
}

// failure returns what the origin failed with a moment ago, and [errSlow] as long as the flight is
// under way that callers gave up on: a stalled origin would delay every caller. An older failure
// does not count, because the origin may have recovered since.
func (c *Cache) failure(ch *chain, key string, at *slot) error {
	f := at.failed.Load()
	if f == nil || !at.resting(c.o.Now()) && (f.err != errSlow || !ch.pending.UnderWay(key)) { //nolint:errorlint // it is never wrapped
		return nil
	}
	return f.err
}

// readShared reads the entry of a key that memory does not have from the
// shared store. That costs a third of a flight, which brings a goroutine and the
// lease with it, and is all that a replica needs that has just started. It gives
// the slot of an entry that can be served; another one is the flight's to judge. A
// caller for whom the shared store was silent does not wait for it again: its flight
// goes to the origin at once.
func (f *flight) readShared(ctx context.Context) (at *slot) {
	if !f.c.begin() {
		f.sharedSilent = true
		return nil
	}
	defer f.c.tasks.Done()
	if !f.ch.pending.BeginRead(f.q.Key) {
		return nil
	}
	read, err := f.c.o.Shared.Read(context.WithoutCancel(ctx), f.ch.namespace, f.q.Key)
	f.read, f.sharedSilent = read, err != nil
	f.ch.pending.EndRead(f.q.Key, func() {
		if read != nil && f.q.judge(&slot{entry: read}, f.c.o.Now) <= Stale {
			at = f.ch.memory.put(&f.q, read)
		}
	})
	if at != nil {
		f.taken(at.entry, true, "")
	}
	return at
}

// wait answers from the flight of the key, the caller's own or the one under way.
func (f flight) wait(ctx context.Context, w wait) (Result, error) {
	for try := range maxFlights {
		l, own, err := f.join(ctx, w)
		if errors.Is(ctx.Err(), context.Canceled) {
			return Result{}, ctx.Err() // the caller has left, perhaps during its own flight
		}
		f.read = nil // what the next flight finds is newer
		if errors.Is(err, ErrYielded) {
			continue // a read ahead, which had no room: the next flight is a caller's
		}
		if err != nil {
			return f.standIn(l, err)
		}
		// A flight that another caller began may have brought too low a height
		// or too old a reading for this one. The next begins after that: if it
		// has asked the origin, then as late as this caller's own could have.
		state := f.q.judge(l.at, f.c.o.Now)
		if own || state == Fresh || try > 0 && l.store == fromOrigin || state == Stale && w.left(Stale) <= 0 {
			return f.serve(ctx, l, own), nil
		}
	}
	return f.standIn(flightResult{}, ErrOverloaded)
}

// join starts the flight of the key, or joins the one under way, and waits for it. own reports
// whether it started it. A caller with nothing else to serve runs its flight on its own goroutine,
// which costs a fifth less; it then waits even if its client leaves.
func (f flight) join(ctx context.Context, w wait) (l flightResult, own bool, err error) {
	if w.forFlight && f.mayRun(ctx) && !f.ch.pending.UnderWay(f.q.Key) {
		result, err, _ := f.ch.flights.Do(f.q.Key, func() (any, error) {
			own = true
			return f.fly(ctx)
		})
		return result.(flightResult), own, err //nolint:forcetypeassert // a flight's
	}
	landed, begun := f.start(ctx)
	l, err = f.await(ctx, landed, begun, w)
	return l, begun.Load(), err
}

// mayRun reports whether a flight that begins now ends before the deadline of ctx.
func (f flight) mayRun(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) >= f.c.o.FlightTimeout
}

// await waits for a flight to land, or as long as w says if there is something else
// to give.
func (r *request) await(ctx context.Context, landed <-chan singleflight.Result, own *atomic.Bool, w wait) (flightResult, error) {
	patience := time.NewTimer(w.left(Stale))
	defer patience.Stop()
	for {
		select {
		case l := <-landed:
			return l.Val.(flightResult), l.Err
		case <-patience.C:
			at, _ := r.ch.memory.GetIfPresent(r.q.Key)
			state := r.q.judge(at, r.c.o.Now)
			left := w.left(state)
			switch {
			case state == Fresh: // it has just landed
			case left > 0:
				patience.Reset(left)
			case state <= StaleIfError:
				r.c.giveUp(at, &r.q, own.Load())
				return flightResult{at: at, store: inMemory, forward: "stale"}, errSlow
			}
		case <-ctx.Done():
			return flightResult{}, ctx.Err()
		}
	}
}

// serve makes a result of what was found. What is not fresh is read anew after that.
func (r *request) serve(ctx context.Context, l flightResult, own bool) Result {
	l.at.hit()
	res := Result{Entry: l.at.entry, Outcome: Miss, Store: l.store, Forward: l.forward, Collapsed: !own}
	switch {
	case l.store == fromOrigin && !own:
		r.c.counts.collapsed.Add(1)
	case l.store == fromOrigin:
	case r.q.judge(l.at, r.c.o.Now) == Fresh:
		res.Outcome = Hit
	default:
		res.Outcome = StaleHit
		r.revalidate(ctx, l.at)
	}
	return res
}

// standIn makes a result after a failure, of what the flight had at hand or
// memory has by now. An origin that is behind has nothing better than the oldest
// entry.
func (r *request) standIn(l flightResult, failure error) (Result, error) {
	at, store, now := l.at, l.store, r.c.o.Now
	if at == nil {
		store = inMemory
		at, _ = r.ch.memory.GetIfPresent(r.q.Key)
	}
	res := Result{Store: store, Forward: l.forward}
	switch state := r.q.judge(at, now); {
	case state == Fresh:
		res.Outcome = Hit
	case state == Stale:
		res.Outcome = StaleHit
	case state == StaleIfError, at != nil && errors.Is(failure, ErrBehind) && r.q.requires().StandsIn(at.entry.Stamp(), now):
		res.Outcome, res.Err = StaleError, failure
	default:
		return Result{}, failure
	}
	at.hit()
	res.Entry = at.entry
	return res, nil
}
