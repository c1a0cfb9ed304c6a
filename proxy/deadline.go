package proxy

import (
	"context"
	"sync"
	"time"
)

// lazyDeadline is a context with a deadline whose timer is set only when
// somebody waits for it. Most requests are answered from memory and never do,
// and the timer would cost them as much as the answer.
type lazyDeadline struct {
	context.Context //nolint:containedctx // it is one itself
	at              time.Time
	once            sync.Once
	armed           context.Context //nolint:containedctx // the same with a timer
	cancel          context.CancelFunc
}

func withLazyDeadline(parent context.Context, at time.Time) *lazyDeadline {
	return &lazyDeadline{Context: parent, at: at}
}

func (d *lazyDeadline) arm() {
	d.armed, d.cancel = context.WithDeadline(d.Context, d.at)
}

// Deadline is the deadline, timer or not.
func (d *lazyDeadline) Deadline() (time.Time, bool) { return d.at, true }

// Done sets the timer.
func (d *lazyDeadline) Done() <-chan struct{} {
	d.once.Do(d.arm)
	return d.armed.Done()
}

// Err sets the timer too: its answer must agree with Done's.
func (d *lazyDeadline) Err() error {
	d.once.Do(d.arm)
	return d.armed.Err()
}

// release stops the timer, if there is one, and must be called at the end.
// Whoever only then begins to wait has the parent, which ends with the request.
func (d *lazyDeadline) release() {
	d.once.Do(func() { d.armed, d.cancel = d.Context, func() {} })
	d.cancel()
}
