package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// A request is one query being processed in a space.
type request struct {
	c    *Cache
	sp   *space
	q    Query
	from Loader

	place account.Hold // counts the caller while it waits

	// What the caller has learned, for its flight.
	read         *Entry // last entry from the shared store, nil for none
	announced    *slot  // slot filled by a message of another replica
	sharedSilent bool   // the shared store did not answer: it is written to, but not read again
}

// A found is an entry and its store.
type found struct {
	at      *slot // nil for none
	store   string
	forward string // as in Result
}

// Get answers q from the nearest store with a new enough entry, or else from the origin. It returns when ctx ends, but
// first completes a read of the shared store, which has a timeout of its own, and a flight on the caller's goroutine
// (see join). A flight on another goroutine continues.
//
// If the origin fails, or there is no time or capacity to wait for it, Get returns a cached entry: one that is stale, or one that
// q.Policy keeps for errors, with the failure in Result.Err. Without such an entry it returns the failure: the origin's, ctx's,
// [ErrOverloaded] or [account.ErrShare]. If ctx is canceled, it returns ctx's error. Get never returns a cached entry below
// q.MinHeight, unless that never changes, and one that is too old for q.Policy only if the origin failed with [upstream.ErrBehind].
func (c *Cache) Get(ctx context.Context, q Query, from Loader) (res Result, err error) {
	sp := c.space.Load()
	at, _ := sp.memory.GetIfPresent(q.Key)
	if q.judge(at, c.o.Now) == Fresh {
		return c.hit(at), nil
	}
	r, have := &request{c: c, sp: sp, q: q, from: from}, found{at: at, store: inMemory}
	defer func() { c.counts.finished(res.Outcome, res.Store) }()

	if renewed := r.renew(at); renewed != at { // by another replica
		r.noteAhead(at)
		have, r.announced = found{at: renewed, store: inShared}, renewed
	}
	switch outcome, failure := r.decide(have.at); outcome {
	case Hit, StaleHit:
		return r.serve(ctx, have, false), nil
	case StaleError:
		r.revalidate(ctx, have.at)
		return Result{Entry: have.at.entry, Outcome: StaleError, Store: have.store, Err: failure}, nil
	}
	r.noteAhead(have.at)

	err = r.takePlace() // from here on, the caller may wait
	if err != nil && q.judge(have.at, c.o.Now) == Stale {
		return r.serve(ctx, have, false), nil // and refresh it in the background
	} else if err != nil {
		return r.standIn(found{}, err)
	}
	defer r.place.Close()
	if have.at == nil && sp.shares(&q) {
		have = found{at: r.readShared(ctx), store: inShared}
		if outcome, _ := r.decide(have.at); outcome == Hit || outcome == StaleHit {
			return r.serve(ctx, have, false), nil
		}
	}

	w := r.newWait(have.at)
	for try := 0; try < maxFlights; try, r.read = try+1, nil { // the next flight reads a newer entry
		got, shared, err := r.join(ctx, w)
		yielded := errors.Is(err, upstream.ErrYielded) && q.For != ForAhead // the flight was a read ahead, and there was no capacity for that
		refused := errors.Is(err, account.ErrShare) && shared               // it was a batch of another client, which has too many callers
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return Result{}, ctx.Err() // the caller is gone, perhaps since its own flight began
		case yielded || refused:
			continue // the next flight may be this caller's
		case err != nil:
			return r.standIn(got, err)
		}
		have = found{r.newest(got.at), got.store, got.forward}
		state := q.judge(have.at, c.o.Now)
		latest := !shared || try > 0 && have.store == fromOrigin // another caller's first flight may have begun too early
		if latest || state == Fresh || state == Stale && w.left(Stale) <= 0 {
			return r.serve(ctx, have, shared), nil
		}
	}
	return r.standIn(found{}, ErrOverloaded)
}

// Fresh answers q as Get would, from an entry in memory that is fresh now and that usable accepts (nil accepts all).
// Otherwise it returns false, without side effects and without counting anything.
func (c *Cache) Fresh(q Query, now time.Time, usable func(*Entry) bool) (res Result, ok bool) {
	at, _ := c.space.Load().memory.GetIfPresent(q.Key)
	fresh := q.judge(at, func() time.Time { return now }) == Fresh
	if !fresh || usable != nil && !usable(at.entry) {
		return res, false
	}
	return c.hit(at), true
}

// Peek returns the entry in memory if it is fresh, and otherwise nil, without side effects.
func (c *Cache) Peek(q Query) *Entry {
	at := c.space.Load().memory.peek(q.Key)
	if q.judge(at, c.o.Now) != Fresh {
		return nil
	}
	return at.entry
}

func (q *Query) requires() *freshness.Requirement {
	return &freshness.Requirement{Policy: &q.Policy, Tip: q.Tip, MinHeight: q.MinHeight, MaxHeight: q.MaxHeight}
}

// judge returns the state of a slot's entry for the query. s may be nil.
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

// hit counts a use of the entry. It stops at the number that makes the key read ahead, so that entries used by many are only read.
func (s *slot) hit() {
	if s.hits.Load() < ahead.Often {
		s.hits.Add(1)
	}
}

func (n *counts) finished(o Outcome, store string) {
	n.requests[slices.Index(outcomes[:], o)][slices.Index(stores[:], store)].Add(1)
}

// decide returns what Get does with at, the entry of a store, nil for none: Hit and StaleHit mean to serve it at once, StaleError to
// serve it in place of the failure err, and Miss to wait for a newer entry.
func (r *request) decide(at *slot) (outcome Outcome, err error) {
	switch r.q.judge(at, r.c.o.Now) {
	case Fresh:
		return Hit, nil
	case Stale:
		if r.revalidationWait(at) == 0 {
			return StaleHit, nil
		}
	case StaleIfError:
		if err := r.failure(at); err != nil {
			return StaleError, err
		}
		if r.expected(at) > r.c.errorPatience() { // the caller would receive this entry in the end
			return StaleError, errSlow
		}
	}
	return Miss, nil
}

// failure returns the origin's failure if it is recent: after an older one the origin may have recovered. It returns
// [errSlow] while a flight or read of the key is in progress, because a stalled origin must not delay every caller.
func (r *request) failure(at *slot) error {
	f := at.failed.Load()
	if f.isRecent(r.c.o.Now()) || f != nil && f.err == errSlow && r.isActive() { //nolint:errorlint // it is never wrapped
		return f.err
	}
	return nil
}

// isActive reports whether a flight or read of the key is in progress.
func (r *request) isActive() bool {
	rec := r.sp.keys.get(r.q.Key)
	return rec.isActive()
}

// takePlace counts the caller as a waiting one. It fails if too many callers wait.
func (r *request) takePlace() error {
	r.place = *r.c.waiters.Open(r.q.Client, r.q.Client == "")
	switch err := r.place.Take(1); {
	case errors.Is(err, account.ErrShare):
		return fmt.Errorf("cache: too many callers of this client are waiting: %w", err)
	case err != nil:
		return ErrOverloaded
	}
	return nil
}

// readShared reads an entry that memory lacks from the shared store. This costs a third of a flight, which needs a
// lease and often a goroutine, and is sufficient for a replica that has just started. It returns the slot of an entry that
// can be served; the flight judges other entries, and reads the origin if the shared store does not answer.
func (r *request) readShared(ctx context.Context) (at *slot) {
	if !r.c.begin() {
		r.sharedSilent = true
		return nil
	}
	defer r.c.tasks.Done()
	if !r.sp.keys.beginRead(r.q.Key) {
		return nil
	}
	var read *Entry
	err := upstream.Guard(r.c.o.Logger, "read", func() (err error) { // after a panic, the read must end
		read, err = r.c.o.Shared.Read(context.WithoutCancel(ctx), r.sp.namespace, r.q.Key)
		return err
	})
	r.read, r.sharedSilent = read, err != nil
	r.sp.keys.endRead(r.q.Key, func() {
		if read != nil && r.q.judge(&slot{entry: read}, r.c.o.Now) <= Stale {
			at = r.sp.memory.put(&r.q, read)
		}
	})
	return at
}

// join starts the flight of the key, or joins the current one, which is shared with the caller that began it. It returns what the
// flight has found when that has ended, or what memory has when the caller no longer waits. A caller with nothing else to serve, and
// with enough time, runs its flight on its own goroutine, which costs a fifth less; it then waits even if its client disconnects.
func (r *request) join(ctx context.Context, w wait) (have found, shared bool, err error) {
	if w.forFlight && r.mayRun(ctx) && !r.isActive() {
		f, err, _ := r.sp.flights.Do(r.q.Key, func() (any, error) { return r.fly(ctx) })
		return r.resultOf(singleflight.Result{Val: f, Err: err})
	}
	return r.await(ctx, r.start(ctx), w)
}

// mayRun reports whether a flight that begins now ends before the deadline of ctx.
func (r *request) mayRun(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) >= r.c.o.FlightTimeout
}

// await waits for a flight to end, or for as long as w allows if another entry can be served.
func (r *request) await(ctx context.Context, done <-chan singleflight.Result, w wait) (have found, shared bool, err error) {
	patience := time.NewTimer(w.left(Stale))
	defer patience.Stop()
	fresh := false // memory had a fresh entry
	for {
		select {
		case result := <-done:
			return r.resultOf(result)
		case <-patience.C:
			at, _ := r.sp.memory.GetIfPresent(r.q.Key)
			state := r.q.judge(at, r.c.o.Now)
			left := w.left(state)
			switch {
			case state == Fresh && !fresh: // the flight has probably just ended
				fresh = true
				patience.Reset(leastPatience)
			case state == Fresh: // another replica has renewed the entry
				return found{at: at, store: inMemory}, false, nil
			case left > 0:
				patience.Reset(left)
			case state <= StaleIfError:
				at.fail(r.c.o.Now(), errSlow) // others do not wait
				return found{at: at, store: inMemory, forward: "stale"}, false, errSlow
			}
		case <-ctx.Done():
			return found{}, false, ctx.Err()
		}
	}
}

// serve returns the result for an entry, which may come from a shared flight. An entry of a store that is not fresh is refreshed
// afterwards.
func (r *request) serve(ctx context.Context, have found, shared bool) Result {
	have.at.hit()
	res := Result{Entry: have.at.entry, Outcome: Miss, Store: have.store, Forward: have.forward, Collapsed: shared}
	switch {
	case have.store == fromOrigin:
		if shared {
			r.c.counts.collapsed.Add(1)
		}
	case r.q.judge(have.at, r.c.o.Now) == Fresh:
		res.Outcome = Hit
	default:
		res.Outcome = StaleHit
		r.revalidate(ctx, have.at)
	}
	return res
}

// newest returns at, the result of a flight, or the slot in memory if its entry is newer and no worse for this
// caller. A message of another replica can renew memory during a flight.
func (r *request) newest(at *slot) *slot {
	kept, _ := r.sp.memory.GetIfPresent(r.q.Key)
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
func (r *request) standIn(have found, failure error) (Result, error) {
	at, store, now := r.newest(have.at), have.store, r.c.o.Now
	if at != have.at {
		store = inMemory
	}
	res := Result{Store: store, Forward: have.forward}
	switch state := r.q.judge(at, now); {
	case state == Fresh:
		res.Outcome = Hit
	case state == Stale:
		res.Outcome = StaleHit
	case state == StaleIfError, at != nil && errors.Is(failure, upstream.ErrBehind) && r.q.requires().StandsIn(at.entry.Stamp(), now):
		res.Outcome, res.Err = StaleError, failure
	default:
		return Result{}, failure
	}
	at.hit()
	res.Entry = at.entry
	return res, nil
}
