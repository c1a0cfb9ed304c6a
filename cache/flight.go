package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache/tracing"
)

// flight is one lookup of a key below memory, for all callers who wait for it.
type flight struct {
	c      *Cache
	ch     *chain
	q      Query
	origin Origin

	read         *Entry // what the shared store has given the caller, nil for nothing
	sharedSilent bool   // the shared store did not answer the caller: it is written to, but not asked again
}

// lookupResult is what a flight knows once it has asked the shared store.
type lookupResult struct {
	enough bool   // at ends the flight
	at     *slot  // the newest entry at hand, nil for none
	store  string // where at was found
	lease  Lease  // to settle or abandon; nil without a shared store
}

// flightResult is what a flight brings. Beside an error, at is the newest entry
// that was at hand before, nil for none.
type flightResult struct {
	at      *slot
	store   string
	forward string
}

// fly runs a flight. It ends with its own time or the cache, not with ctx.
func (c *Cache) fly(ctx context.Context, f *flight) (flightResult, error) {
	if !c.begin() {
		return flightResult{}, errClosed
	}
	defer c.tasks.Done()
	c.counts.flights.Add(1)
	f.ch.pending.BeginFlight(f.q.Key)
	defer f.ch.pending.EndFlight(f.q.Key)

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.FlightTimeout)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	ctx, span := tracing.Start(ctx, "tipcache/cache", "cache.flight")
	began := time.Now()
	r, err := f.run(ctx)
	f.observe(time.Since(began), r, err)
	f.endFlight(ctx, span, r, err)
	return r, err
}

// observe notes how long a flight took that asked the origin. A failure says
// nothing of that unless it took longer than others do to succeed.
func (f *flight) observe(took time.Duration, r flightResult, err error) {
	l := f.c.latency(&f.q)
	if errors.Is(err, ErrYielded) {
		return
	}
	if err == nil && r.store == fromOrigin || err != nil && took > time.Duration(l.mean.Load()) {
		l.observe(took, 2*f.c.patience(&f.q))
	}
}

// revalidate has a stale entry read anew by a flight in the background, unless
// that is under way, failed a moment ago, or too many are under way.
func (c *Cache) revalidate(ctx context.Context, ch *chain, at *slot, q Query, origin Origin) {
	if at.renewing.Load() || at.resting(c.o.Now()) || !at.renewing.CompareAndSwap(false, true) {
		return
	}
	if c.background.Add(1) > int64(c.o.MaxBackground) || !c.begin() {
		c.background.Add(-1)
		c.counts.skipped.Add(1)
		at.renewing.Store(false)
		return
	}
	go func() {
		defer c.tasks.Done()
		defer c.background.Add(-1)
		defer at.renewing.Store(false)
		landed := ch.flights.DoChan(q.Key, func() (any, error) {
			return c.fly(inBackground(ctx), &flight{c: c, ch: ch, q: q, origin: origin})
		})
		select {
		case <-landed:
		case <-c.life.Done():
		}
	}()
}

// keep puts e into memory, and gives the slot that is there then: a newer entry
// may have come between. If that serves worse (it is of unknown height, but was
// read later), this flight's callers are given e all the same.
func (f *flight) keep(e *Entry) *slot {
	now := f.c.o.Now()
	kept, mine := f.ch.memory.put(&f.q, e), &slot{entry: e}
	if f.q.state(kept, now) > f.q.state(mine, now) {
		return mine
	}
	return kept
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
	l := f.c.latency(&f.q)
	l.begin()
	defer func() { l.end(time.Now(), 2*f.c.patience(&f.q)) }()
	var reading Reading
	if f.c.o.Taken != nil && f.q.Audit {
		ctx = WithReading(ctx, &reading)
	}
	e, err = f.origin(ctx, prev)
	if err == nil && (e == nil || e.Content == nil) {
		return nil, errors.New("cache: origin gave neither an entry nor an error")
	}
	if err == nil {
		f.c.taken(&f.q, e, false, reading.By, f.origin)
	}
	return e, err
}

// newerThanAnswer tells whether a slot that can stand in is newer than what an origin gives
// that is behind the tip.
func (f *flight) newerThanAnswer(at *slot, e *Entry) bool {
	now := f.c.o.Now()
	return f.q.usableAtAnyAge(at, now) && 0 < e.Height && e.Height < at.entry.Height && f.q.state(&slot{entry: e}, now) != Fresh
}

// endFlight says of a flight's span what the flight came to.
func (f *flight) endFlight(ctx context.Context, span trace.Span, r flightResult, err error) {
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("tipcache.key_hash", tracing.KeyHash(f.q.Key)),
			attribute.Bool("tipcache.background", InBackground(ctx)),
			attribute.String("tipcache.outcome", r.outcome(err)),
		)
		if r.at != nil {
			span.SetAttributes(attribute.Int64("tipcache.height", r.at.entry.Height))
		}
	}
	tracing.End(span, err)
}

// outcome is where the answer came from, or that there is none.
func (r flightResult) outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return cmp.Or(r.store, "origin")
}
