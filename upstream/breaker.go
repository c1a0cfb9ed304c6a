package upstream

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
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

// BreakerOptions configure a breaker. All but Answered are required.
type BreakerOptions struct {
	Outage   *Outage          // told of the breaker's opening, with the failure that opened it, and of its closing
	Failures int              // so many in a row open the breaker
	Cooldown time.Duration    // from then until one request may try again
	Excluded func(error) bool // says of an error that it is neither a failure nor a success
	Answered func(error) bool // says of an error that it is an answer, and so a success; nil: no error is
}

// NewBreaker makes the circuit breaker of an origin, or of another server that can
// be done without. The execution clients have none: they rest for longer after each
// failure, and for other reasons (package evm).
func NewBreaker[T any](o BreakerOptions) *gobreaker.CircuitBreaker[T] {
	var last error // gobreaker runs both functions that use it under its mutex
	return gobreaker.NewCircuitBreaker[T](gobreaker.Settings{
		Timeout:     o.Cooldown,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= o.Failures },
		IsExcluded: func(err error) bool {
			last = err
			return err != nil && o.Excluded(err)
		},
		IsSuccessful: func(err error) bool { return err == nil || o.Answered != nil && o.Answered(err) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				o.Outage.Begin(last)
			case gobreaker.StateClosed:
				o.Outage.End()
			}
		},
	})
}

// Sleep waits for so long, or until ctx ends: then it returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
