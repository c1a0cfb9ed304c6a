package upstream

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// An Outage tells the log that an origin is lost and that it is back: one line
// each, however many requests meet it in between. It is safe for concurrent use.
type Outage struct {
	log    *slog.Logger
	origin string
	since  atomic.Int64 // nanoseconds since 1970; 0 while the origin is well
}

// NewOutage returns the Outage of an origin, under the name that the log uses.
func NewOutage(log *slog.Logger, origin string) *Outage { return &Outage{log: log, origin: origin} }

// Begin says that the origin is lost, and why, unless that was said already.
func (o *Outage) Begin(cause error) {
	if o.since.CompareAndSwap(0, time.Now().UnixNano()) {
		o.log.Warn("origin lost", "origin", o.origin, "error", cause)
	}
}

// End says that the origin is back if it was lost.
func (o *Outage) End() {
	if o.since.Load() == 0 {
		return
	}
	if since := o.since.Swap(0); since != 0 {
		after := time.Since(time.Unix(0, since)).Round(time.Millisecond)
		o.log.Info("origin back", "origin", o.origin, "after", after.String())
	}
}
