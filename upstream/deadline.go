package upstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A LazyDeadline is a context with a deadline whose timer starts only when a caller waits for it. Most requests are answered
// from memory without waiting, and a timer would cost as much as the response.
type LazyDeadline struct {
	context.Context //nolint:containedctx // it is one itself
	at              time.Time
	once            sync.Once
	decided         atomic.Bool     // once is done
	armed           context.Context //nolint:containedctx // the same with a timer
	cancel          context.CancelFunc
}

// WithLazyDeadline returns a context with a deadline. The caller must call Release.
func WithLazyDeadline(parent context.Context, at time.Time) *LazyDeadline {
	if lazy, ok := parent.(*LazyDeadline); ok && lazy.at.Before(at) {
		at = lazy.at
	}
	return &LazyDeadline{Context: parent, at: at}
}

func (d *LazyDeadline) arm() {
	d.armed, d.cancel = context.WithDeadline(d.Context, d.at)
	d.decided.Store(true)
}

// Deadline implements [context.Context].
func (d *LazyDeadline) Deadline() (time.Time, bool) {
	if earlier, ok := d.Context.Deadline(); ok && earlier.Before(d.at) {
		return earlier, true
	}
	return d.at, true
}

// Done implements [context.Context] and starts the timer.
func (d *LazyDeadline) Done() <-chan struct{} {
	d.once.Do(d.arm)
	return d.armed.Done()
}

// Err implements [context.Context]. It does not rely on the timer, which may be late.
func (d *LazyDeadline) Err() error {
	err := d.Context.Err()
	if err == nil && d.decided.Load() {
		err = d.armed.Err()
	}
	if err == nil && !time.Now().Before(d.at) {
		err = context.DeadlineExceeded
	}
	return err
}

// Value implements [context.Context]. Package context finds the context with the timer by it, even from a context with values.
func (d *LazyDeadline) Value(key any) any {
	if d.decided.Load() {
		return d.armed.Value(key)
	}
	return d.Context.Value(key)
}

// At returns the time for which Done would set the timer. A parent of another type has its own timer.
func (d *LazyDeadline) At() time.Time { return d.at }

// AfterCancel is [context.AfterFunc] without the timer: the caller must observe At itself. It must call stop before Release.
func (d *LazyDeadline) AfterCancel(f func()) (stop func() bool) {
	if parent, ok := d.Context.(*LazyDeadline); ok {
		return parent.AfterCancel(f)
	}
	return context.AfterFunc(d.Context, f)
}

// Release stops the timer. A caller that begins to wait afterwards waits for the parent, which ends with the request.
func (d *LazyDeadline) Release() {
	d.once.Do(func() {
		d.armed, d.cancel = d.Context, func() {}
		d.decided.Store(true)
	})
	d.cancel()
}

// A detached context has the values of another one.
type detached struct {
	context.Context //nolint:containedctx // it is one itself
	values          context.Context
}

// Detach returns a context with the values of ctx that ends with life instead. life must be a context of package context that
// can be cancelled.
func Detach(ctx, life context.Context) context.Context { return &detached{life, ctx} }

// Value implements [context.Context]. Package context finds a cancellable context by it, which must be life.
func (d *detached) Value(key any) any {
	if value := d.Context.Value(key); value != nil {
		return value
	}
	return d.values.Value(key)
}
