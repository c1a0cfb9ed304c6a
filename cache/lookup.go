package cache

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/cache/freshness"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// maxFlights is the number of flights that a caller joins, one after another, to get a new enough entry.
const maxFlights = 8

// request is one query being processed in a chain's cache.
type request struct {
	c      *Cache
	ch     *chain
	q      Query
	origin Origin
}

// Get answers q from the nearest store with a new enough entry, or else from origin. It returns when ctx ends, but
// first completes a read of the shared store, which has a timeout of its own, and a flight on the caller's goroutine
// (see join). A flight on another goroutine continues. If the origin fails, or there is no time or capacity to wait
// for it, Get returns an entry that q.Policy keeps for errors, with the failure in Result.Err. Without such an entry
// it returns the failure: the origin's, ctx's, [ErrOverloaded] or [ErrShare].
//
// An entry below q.MinHeight is returned only if the origin supplied it after Get was called. The same holds for an entry
// older than q.Policy allows, unless the origin failed with [ErrBehind].
func (c *Cache) Get(ctx context.Context, q Query, origin Origin) (Result, error) {
	ch := c.chain.Load()
	at, _ := ch.memory.GetIfPresent(q.Key)
	if q.judge(at, c.o.Now) == Fresh {
		return c.hit(at), nil
	}
	r := &request{c: c, ch: ch, q: q, origin: origin}
	res, err := r.answer(ctx, at)
	c.counts.finished(res.Outcome, res.Store)
	return res, err
}

// Fresh answers q as Get would, from an entry in memory that is fresh now and that usable accepts (nil accepts all).
// Otherwise it returns false, without side effects and without counting anything.
func (c *Cache) Fresh(q Query, now time.Time, usable func(*Entry) bool) (res Result, ok bool) {
	at, _ := c.chain.Load().memory.GetIfPresent(q.Key)
	fresh := q.judge(at, func() time.Time { return now }) == Fresh
	if !fresh || usable != nil && !usable(at.entry) {
		return res, false
	}
	return c.hit(at), true
}

// Peek returns the entry in memory if it is fresh, and otherwise nil, without side effects.
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

// judge judges a slot, which may be nil.
func (q *Query) judge(s *slot, now freshness.Clock) State {
	if s == nil {
		return Expired
	}
	return q.requires().Judge(s.entry.Stamp(), now)
}

// Stamp returns what the entry's freshness is judged by.
func (e *Entry) Stamp() *freshness.Stamp {
	return &freshness.Stamp{Height: e.Height, ReadAt: e.ReadAt, Expires: e.Expires, Status: e.Status, Lasting: e.Source != 0, Provisional: e.Provisional}
}

func (e *Entry) pastExpires(now freshness.Clock) bool { return e.Stamp().PastExpires(now) }

// hit finishes a request served from memory.
func (c *Cache) hit(at *slot) Result {
	at.hit()
	c.counts.finished(Hit, inMemory)
	return Result{Entry: at.entry, Outcome: Hit, Store: inMemory}
}

// hit counts a use of the entry, up to the number that makes the key read ahead: a load is cheaper than contention.
func (s *slot) hit() {
	if s.hits.Load() < ahead.Often {
		s.hits.Add(1)
	}
}

func (n *counts) finished(o Outcome, store string) {
	n.requests[o][slices.Index(stores[:], store)].Add(1)
}

// answer returns the entry in memory, fresh or not, if waiting would not help, and else the result of a flight.
func (r *request) answer(ctx context.Context, at *slot) (Result, error) {
	f, store := flight{request: r}, inMemory
	if pushed := r.renew(at); pushed != at {
		r.noteAhead(at)
		at, f.pushed, store = pushed, pushed, inShared
	}
	switch outcome, err := r.c.decide(r.ch, &r.q, at); outcome {
	case Hit, StaleHit:
		return r.serve(ctx, flightResult{at: at, store: store}, true), nil
	case StaleError:
		r.revalidate(ctx, at)
		return Result{Entry: at.entry, Outcome: StaleError, Store: store, Err: err}, nil
	}
	r.noteAhead(at)
	place := r.c.waiters.Open(r.q.Client, r.q.Client == "")
	switch err := place.Take(1); {
	case err != nil && r.q.judge(at, r.c.o.Now) == Stale:
		return r.serve(ctx, flightResult{at: at, store: store}, true), nil // and refresh it in the background
	case errors.Is(err, account.ErrShare):
		return r.standIn(flightResult{}, ErrShare)
	case err != nil:
		return r.standIn(flightResult{}, ErrOverloaded)
	}
	defer place.Close()
	if at == nil && r.ch.shares(&r.q) {
		at = f.readShared(ctx)
		if outcome, _ := r.c.decide(r.ch, &r.q, at); outcome == Hit || outcome == StaleHit {
			return r.serve(ctx, flightResult{at: at, store: inShared}, true), nil
		}
	}
	return f.wait(ctx, r.c.newWait(&r.q, at))
}

// decide returns what Get of q does with at, the entry of a store, nil for none. Hit and StaleHit serve it at
// once, StaleError serves it because of err, and Miss waits for a newer entry.
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
		if q.expected(at) > c.errorPatience() { // the caller would receive this entry in the end
			return StaleError, errSlow
		}
	}
	return Miss, nil
}

// failure returns the origin's failure if it is recent: after an older one the origin may have recovered. It returns
// [errSlow] while a flight or read of the key is in progress, because a stalled origin must not delay every caller.
func (c *Cache) failure(ch *chain, key string, at *slot) error {
	f := at.failed.Load()
	if f.isRecent(c.o.Now()) || f != nil && f.err == errSlow && ch.pending.UnderWay(key) { //nolint:errorlint // it is never wrapped
		return f.err
	}
	return nil
}

// readShared reads an entry that memory lacks from the shared store. This costs a third of a flight, which needs a
// lease and often a goroutine, and is sufficient for a replica that has just started. It returns the slot of an entry that
// can be served; the flight judges other entries, and reads the origin if the shared store does not answer.
func (f *flight) readShared(ctx context.Context) (at *slot) {
	if !f.c.begin() {
		f.sharedSilent = true
		return nil
	}
	defer f.c.tasks.Done()
	if !f.ch.pending.BeginRead(f.q.Key) {
		return nil
	}
	var read *Entry
	err := upstream.Guard(f.c.o.Logger, "read", func() (err error) { // after a panic, the read must end
		read, err = f.c.o.Shared.Read(context.WithoutCancel(ctx), f.ch.namespace, f.q.Key)
		return err
	})
	f.read, f.sharedSilent = read, err != nil
	f.ch.pending.EndRead(f.q.Key, func() {
		if read != nil && f.q.judge(&slot{entry: read}, f.c.o.Now) <= Stale {
			at = f.ch.memory.put(&f.q, read)
		}
	})
	return at
}

// wait answers from the flight of the key, the caller's own or the current one.
func (f flight) wait(ctx context.Context, w wait) (Result, error) {
	for try := range maxFlights {
		l, own, err := f.join(ctx, w)
		if errors.Is(ctx.Err(), context.Canceled) {
			return Result{}, ctx.Err() // the caller is gone, perhaps since its own flight began
		}
		f.read = nil // the next flight reads a newer one
		if errors.Is(err, ErrYielded) && !Ahead(ctx) || errors.Is(err, ErrShare) && !own {
			continue // a read ahead without capacity, or a batch of a client with too many callers: the next flight may be this caller's
		}
		if err != nil {
			return f.standIn(l, err)
		}
		// The result of another caller's flight may be too old for this one. The next flight begins later: if that
		// reads the origin, it does so as late as this caller's own flight would.
		l.at = f.newest(l.at)
		state := f.q.judge(l.at, f.c.o.Now)
		if own || state == Fresh || try > 0 && l.store == fromOrigin || state == Stale && w.left(Stale) <= 0 {
			return f.serve(ctx, l, own), nil
		}
	}
	return f.standIn(flightResult{}, ErrOverloaded)
}

// join starts the flight of the key, or joins the current one, and waits for it. own reports whether it started
// the flight. A caller with nothing else to serve runs its flight on its own goroutine, which costs a fifth less;
// it then waits even if its client disconnects.
func (f flight) join(ctx context.Context, w wait) (l flightResult, own bool, err error) {
	if w.forFlight && f.mayRun(ctx) && !f.ch.pending.UnderWay(f.q.Key) {
		result, err, _ := f.ch.flights.Do(f.q.Key, func() (any, error) {
			own = true
			return f.fly(ctx)
		})
		return result.(flightResult), own, err //nolint:forcetypeassert // a flight's
	}
	done, begun := f.start(ctx)
	l, err = f.await(ctx, done, w)
	return l, begun.Load(), err
}

// mayRun reports whether a flight that begins now ends before the deadline of ctx.
func (f flight) mayRun(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) >= f.c.o.FlightTimeout
}

// await waits for a flight to end, or for as long as w allows if another entry can be served.
func (r *request) await(ctx context.Context, done <-chan singleflight.Result, w wait) (flightResult, error) {
	patience := time.NewTimer(w.left(Stale))
	defer patience.Stop()
	fresh := false // memory had a fresh entry
	for {
		select {
		case l := <-done:
			return l.Val.(flightResult), l.Err
		case <-patience.C:
			at, _ := r.ch.memory.GetIfPresent(r.q.Key)
			state := r.q.judge(at, r.c.o.Now)
			left := w.left(state)
			switch {
			case state == Fresh && !fresh: // the flight has probably just ended
				fresh = true
				patience.Reset(leastPatience)
			case state == Fresh: // another replica has renewed the entry
				return flightResult{at: at, store: inMemory}, nil
			case left > 0:
				patience.Reset(left)
			case state <= StaleIfError:
				at.fail(r.c.o.Now(), errSlow) // others do not wait
				return flightResult{at: at, store: inMemory, forward: "stale"}, errSlow
			}
		case <-ctx.Done():
			return flightResult{}, ctx.Err()
		}
	}
}

// serve returns the result for an entry. An entry that is not fresh is refreshed afterwards.
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

// newest returns at, the result of a flight, or the slot in memory if its entry is newer and no worse for this
// caller. A message of another replica can renew memory during a flight.
func (r *request) newest(at *slot) *slot {
	kept, _ := r.ch.memory.GetIfPresent(r.q.Key)
	if at == nil || kept == nil || at == kept {
		return cmp.Or(at, kept)
	}
	now := r.c.o.Now
	if freshness.Newer(kept.entry.Stamp(), at.entry.Stamp()) && r.q.judge(kept, now) <= r.q.judge(at, now) {
		return kept
	}
	return at
}

// standIn returns a result after a failure, with the entry that the flight or memory has now. If the origin is
// behind, even the oldest entry is better.
func (r *request) standIn(l flightResult, failure error) (Result, error) {
	at, store, now := r.newest(l.at), l.store, r.c.o.Now
	if at != l.at {
		store = inMemory
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
