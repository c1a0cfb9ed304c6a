package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/singleflight"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/upstream"
)

// A flight is one lookup of a key in the shared store and at the origin. Each caller that needs one makes a value of this type.
// If no flight of the key is running, a copy of the value runs for all callers (join, start). Otherwise the caller waits for
// the running one.
type flight struct {
	*request

	read         *Entry // last entry from the shared store, nil for none
	pushed       *slot  // slot filled by a message of another replica
	sharedSilent bool   // the shared store did not answer: it is written to, but not read again
}

// flightResult is the result of a flight. Together with an error, at is the newest entry known before, nil for
// none.
type flightResult struct {
	at      *slot
	store   string
	forward string
}

// start starts the flight of the key or joins the current one. own becomes true when this flight begins.
func (f flight) start(ctx context.Context) (done <-chan singleflight.Result, own *atomic.Bool) {
	own = new(atomic.Bool)
	return f.ch.flights.DoChan(f.q.Key, func() (any, error) {
		own.Store(true)
		growStack(0)
		return f.fly(ctx)
	}), own
}

// growStack gives the calling goroutine a stack of 16 KiB, which reading a node needs, at once: growing later
// would copy more.
//
//go:noinline
func growStack(never int) byte {
	if never == 0 {
		return 0
	}
	var frame [12 << 10]byte
	return frame[never]
}

// fly runs the flight. It ends with its own timeout or the cache, not with ctx.
func (f *flight) fly(ctx context.Context) (flightResult, error) {
	c := f.c
	if !c.begin() {
		return flightResult{}, errClosed
	}
	defer c.tasks.Done()
	c.counts.flights.Add(1)
	f.ch.pending.BeginFlight(f.q.Key)
	defer f.ch.pending.EndFlight(f.q.Key)

	within := upstream.WithLazyDeadline(upstream.Detach(ctx, c.life), time.Now().Add(c.o.FlightTimeout))
	defer within.Release()
	ctx, span := upstream.StartSpanOf(within, "tipcache/cache", "cache.flight", trace.SpanKindInternal)
	var l flightResult
	err := upstream.Guard(c.o.Logger, "flight", func() (err error) {
		l, err = f.run(ctx)
		return err
	})
	if span.IsRecording() {
		f.describe(ctx, span, l, err)
	}
	upstream.EndSpan(span, err)
	return l, err
}

// run tries memory once more, then the shared store, then the origin.
func (f *flight) run(ctx context.Context) (flightResult, error) {
	// The previous flight may have ended between the caller's lookup in memory and the start of this one. Without a
	// second lookup its entry would be read twice.
	at, _ := f.ch.memory.GetIfPresent(f.q.Key)
	l := flightResult{at: at, store: inMemory}
	if at != nil && at == f.pushed {
		l.store = inShared
	}
	if f.fresh(at) || f.renewed(&l) {
		return l, nil
	}
	lease, enough, err := f.acquire(ctx, &l)
	if enough || err != nil {
		return l, err
	}
	err = f.readOrigin(ctx, &l)
	f.release(ctx, lease, l, err)
	return l, err
}

func (f *flight) fresh(at *slot) bool { return f.q.judge(at, f.c.o.Now) == Fresh }

func (f *flight) readOrigin(ctx context.Context, l *flightResult) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cache: waiting for another replica: %w", err)
	}
	l.forward = f.forward(l.at)
	e, err := f.fetch(ctx, l.at.known())
	if errors.Is(err, ErrYielded) || errors.Is(err, ErrShare) || errors.Is(err, ErrOverloaded) {
		return err // the origin has not failed: it was not read, or is a batch that reads the cache for a client
	}
	if err == nil && l.at != nil && f.q.requires().FallsBehind(e.Stamp(), l.at.entry.Stamp(), f.c.o.Now) {
		err = ErrBehind
	}
	if err != nil {
		f.c.counts.originErrors.Add(1)
		if l.at != nil {
			l.at.fail(f.c.o.Now(), err)
		}
		return err
	}
	before := l.at
	l.at, l.store = f.keep(e), fromOrigin
	// A key that is read ahead is used often, but its hits were set to 0 when the block began.
	if before != nil && before.entry.Content != e.Content && (Ahead(ctx) || before.hits.Load() >= ahead.Often) {
		f.c.encodeAgain(f.q.Key, before.entry.Content, e.Content)
	}
	return nil
}

// forward returns why the origin is read, as [Result] describes it. An entry that is fresh by its policy may be
// too old for this caller.
func (f *flight) forward(at *slot) string {
	anyCaller := Query{Policy: f.q.Policy, Tip: f.q.Tip}
	switch {
	case at == nil:
		return "uri-miss"
	case anyCaller.judge(at, f.c.o.Now) == Fresh:
		return "request"
	default:
		return "stale"
	}
}

func (f *flight) fetch(ctx context.Context, prev *Entry) (e *Entry, err error) {
	err = upstream.Guard(f.c.o.Logger, "origin", func() (err error) {
		e, err = f.origin(ctx, prev)
		return err
	})
	if !errors.Is(err, ErrYielded) {
		f.c.counts.originCalls.Add(1)
	}
	if err == nil && (e == nil || e.Content == nil) {
		return nil, errors.New("cache: the origin returned neither an entry nor an error")
	}
	return e, err
}

// keep puts e into memory, unless memory has a newer entry, and returns the slot of the key. If the newer entry is
// worse for this flight's callers (read later, but of unknown height), it returns a slot with e.
func (f *flight) keep(e *Entry) *slot {
	now := f.c.o.Now
	own := &slot{entry: e}
	if e.pastExpires(now) && !f.q.Policy.ServesPastExpires(e.Stamp()) { // it could never be served
		return own
	}
	if kept := f.ch.memory.put(&f.q, e); f.q.judge(kept, now) <= f.q.judge(own, now) {
		return kept
	}
	return own
}

// revalidate refreshes a stale entry by a background flight, unless one is in progress, the last one failed just
// now, or too many are in progress.
func (r *request) revalidate(ctx context.Context, at *slot) {
	if at.renewing.Load() || at.failedRecently(r.c.o.Now()) || !at.renewing.CompareAndSwap(false, true) {
		return
	}
	if r.c.background.Add(1) > int64(r.c.o.MaxBackground) || !r.c.begin() {
		r.c.background.Add(-1)
		r.c.counts.skipped.Add(1)
		at.renewing.Store(false)
		return
	}
	go func() {
		defer r.c.tasks.Done()
		defer r.c.background.Add(-1)
		_, _, _ = r.refresh(context.WithValue(ctx, backgroundKey{}, true), at) // the next caller sees the result
	}()
}

// refresh runs a flight without a waiting caller, for an entry marked as renewing. own is false if it joined a
// caller's flight.
func (r *request) refresh(ctx context.Context, at *slot) (l flightResult, own bool, err error) {
	defer at.renewing.Store(false)
	done, begun := flight{request: r}.start(ctx)
	select {
	case end := <-done:
		return end.Val.(flightResult), begun.Load(), end.Err //nolint:forcetypeassert // flights return nothing else
	case <-r.c.life.Done():
		return l, true, errClosed
	}
}

func (f *flight) describe(ctx context.Context, span trace.Span, l flightResult, err error) {
	outcome := cmp.Or(l.store, "origin")
	if err != nil {
		outcome = "failed"
	}
	span.SetAttributes(
		attribute.Bool("tipcache.background", InBackground(ctx)),
		attribute.String("tipcache.outcome", outcome),
	)
	if l.at != nil {
		span.SetAttributes(attribute.Int64("tipcache.height", l.at.entry.Height))
	}
}
