package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/singleflight"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// A flight is a running lookup of a key: in memory once more, in the shared store, and at the origin. All requests of the key share
// it.
type flight struct {
	*request // began it

	found // the newest entry that it knows: its result once it has ended
}

// resultOf returns what a flight has found, and whether another caller began it.
func (r *request) resultOf(ended singleflight.Result) (have found, shared bool, err error) {
	f := ended.Val.(*flight) //nolint:forcetypeassert // flights return nothing else
	return f.found, f.request != r, ended.Err
}

// start starts the flight of the key on another goroutine, or joins the current one.
func (r *request) start(ctx context.Context) (done <-chan singleflight.Result) {
	return r.sp.flights.DoChan(r.q.Key, func() (any, error) {
		growStack(0)
		return r.fly(ctx)
	})
}

// growStack gives the calling goroutine a stack of 16 KiB, which reading a node needs, at once: growing later
// would copy more. The call itself does it, by the size of the frame, which is never used.
//
//go:noinline
func growStack(never int) byte {
	if never == 0 {
		return 0
	}
	var frame [12 << 10]byte
	return frame[never]
}

// fly runs a flight that the request begins. It ends with its own timeout or the cache, not with ctx.
func (r *request) fly(ctx context.Context) (f *flight, err error) {
	f = &flight{request: r}
	c := f.c
	if !c.begin() {
		return f, errClosed
	}
	defer c.tasks.Done()
	c.counts.flights.Add(1)
	f.sp.keys.beginFlight(f.q.Key, f)
	defer f.sp.keys.endFlight(f.q.Key)

	within := upstream.WithLazyDeadline(upstream.Detach(ctx, c.life), time.Now().Add(c.o.FlightTimeout))
	defer within.Release()
	ctx, span := upstream.StartSpanOf(within, "tipcache/cache", "cache.flight", trace.SpanKindInternal)
	err = upstream.Guard(c.o.Logger, "flight", func() error { return f.run(ctx) })
	if span.IsRecording() {
		f.describe(span, err)
	}
	upstream.EndSpan(span, err)
	return f, err
}

// run looks the key up: in memory, in the shared store, and at the origin, under the key's lease if it gets that. The entry goes into
// memory, and then into the shared store, which wakes the replicas that wait for it.
func (f *flight) run(ctx context.Context) error {
	// The previous flight may have ended between the caller's lookup in memory and the start of this one. Without a
	// second lookup its entry would be read twice.
	f.at, _ = f.sp.memory.GetIfPresent(f.q.Key)
	f.store = inMemory
	if f.at != nil && f.at == f.announced {
		f.store = inShared
	}
	if f.isFresh() || f.takeRenewal() {
		return nil
	}

	lease, fresh, err := f.acquire(ctx)
	if err != nil || fresh {
		return err
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("cache: waiting for another replica: %w", ctx.Err())
		f.publish(ctx, lease, err)
		return err
	}

	f.forward = f.forwardReason()
	before := f.at
	e, err := f.load(ctx)
	if err == nil && before != nil && f.q.requires().FallsBehind(e.Stamp(), before.entry.Stamp(), f.c.o.Now) {
		err = fmt.Errorf("%w: its answer is older than the cached one", upstream.ErrBehind)
	}
	switch {
	case err == nil:
		f.at, f.store = f.put(e), fromOrigin
		f.encodeAgain(before, e)
	case isOriginFailure(err):
		f.c.counts.originErrors.Add(1)
		if before != nil {
			before.fail(f.c.o.Now(), err)
		}
	}
	f.publish(ctx, lease, err)
	return err
}

func (f *flight) isFresh() bool { return f.q.judge(f.at, f.c.o.Now) == Fresh }

// isOriginFailure returns false for an error that says that the read was declined for lack of capacity.
func isOriginFailure(err error) bool {
	return !errors.Is(err, upstream.ErrYielded) && !errors.Is(err, account.ErrShare) && !errors.Is(err, ErrOverloaded)
}

// encodeAgain encodes a new content in the codings of the one before, if the key is used often. The hits of a key that is read
// ahead were set to 0 when the block began.
func (f *flight) encodeAgain(before *slot, e *Entry) {
	if before != nil && before.entry.Content != e.Content && (f.q.For == ForAhead || before.hits.Load() >= ahead.Often) {
		f.c.encodeAgain(f.q.Key, before.entry.Content, e.Content)
	}
}

// forwardReason returns why the origin is read, as [Result] describes it. An entry that is fresh by its policy may be
// too old for this caller.
func (f *flight) forwardReason() string {
	anyCaller := Query{Policy: f.q.Policy, Tip: f.q.Tip}
	switch {
	case f.at == nil:
		return "uri-miss"
	case anyCaller.judge(f.at, f.c.o.Now) == Fresh:
		return "request"
	default:
		return "stale"
	}
}

// load reads the origin.
func (f *flight) load(ctx context.Context) (e *Entry, err error) {
	err = upstream.Guard(f.c.o.Logger, "origin", func() (err error) {
		e, err = f.from.Load(ctx, How{Before: f.at.known(), For: f.q.For})
		return err
	})
	if !errors.Is(err, upstream.ErrYielded) {
		f.c.counts.originCalls.Add(1)
	}
	if err == nil && (e == nil || e.Content == nil) {
		return nil, errors.New("cache: the origin returned neither an entry nor an error")
	}
	return e, err
}

// put puts e into memory, unless memory has a newer entry, and returns the slot of the key. It returns a slot of its own with e if
// that has expired already, or if the newer entry is worse for this flight's callers (read later, but of unknown height).
func (f *flight) put(e *Entry) *slot {
	now := f.c.o.Now
	own := &slot{entry: e}
	if e.pastExpires(now) && !f.q.Policy.ServesPastExpires(e.Stamp()) { // it could never be served
		return own
	}
	if kept := f.sp.memory.put(&f.q, e); f.q.judge(kept, now) <= f.q.judge(own, now) {
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
		_, _, _ = r.repeat(max(r.q.For, ForBackground)).refresh(ctx, at) // the next caller sees the result
	}()
}

// repeat returns a new request with the same query for another purpose.
func (r *request) repeat(purpose Purpose) *request {
	repeated := &request{c: r.c, sp: r.sp, q: r.q, from: r.from}
	repeated.q.For = purpose
	return repeated
}

// refresh runs or joins the flight of an entry marked as renewing, waits for it, and removes the mark.
func (r *request) refresh(ctx context.Context, at *slot) (have found, shared bool, err error) {
	defer at.renewing.Store(false)
	select {
	case result := <-r.start(ctx):
		return r.resultOf(result)
	case <-r.c.life.Done():
		return found{}, false, errClosed
	}
}

func (f *flight) describe(span trace.Span, err error) {
	outcome := cmp.Or(f.store, "origin")
	if err != nil {
		outcome = "failed"
	}
	span.SetAttributes(
		attribute.Bool("tipcache.background", f.q.For == ForBackground),
		attribute.String("tipcache.outcome", outcome),
	)
	if f.at != nil {
		span.SetAttributes(attribute.Int64("tipcache.height", f.at.entry.Height))
	}
}
