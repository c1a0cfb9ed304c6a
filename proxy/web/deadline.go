package web

import (
	"context"
	"sync"
	"time"
)

// A LazyDeadline is a context with a deadline whose timer is set only when
// a caller waits for it. Most requests are answered from memory without waiting,
// and the timer would cost them as much as the answer.
type LazyDeadline struct {
	context.Context //nolint:containedctx // it is one itself
	at              time.Time
	once            sync.Once
	armed           context.Context //nolint:containedctx // the same with a timer
	cancel          context.CancelFunc
}

// WithLazyDeadline gives a context a deadline. Release must be called in the end.
func WithLazyDeadline(parent context.Context, at time.Time) *LazyDeadline {
	return &LazyDeadline{Context: parent, at: at}
}

func (d *LazyDeadline) arm() {
	d.armed, d.cancel = context.WithDeadline(d.Context, d.at)
}

// Deadline is the deadline, timer or not.
func (d *LazyDeadline) Deadline() (time.Time, bool) { return d.at, true }

// Done sets the timer.
func (d *LazyDeadline) Done() <-chan struct{} {
	d.once.Do(d.arm)
	return d.armed.Done()
}

// Err sets the timer too: its answer must agree with Done's.
func (d *LazyDeadline) Err() error {
	d.once.Do(d.arm)
	return d.armed.Err()
}

// Release stops the timer, if there is one, and must be called at the end.
// A caller that begins to wait after that has the parent, which ends with the
// request.
func (d *LazyDeadline) Release() {
	d.once.Do(func() { d.armed, d.cancel = d.Context, func() {} })
	d.cancel()
}

// Deadline is the end of the time of a request that began at the start.
func (s *Stack) Deadline(start time.Time) time.Time { return start.Add(s.o.RequestTimeout) }
