package upstream

import (
	"context"
	"time"

	"github.com/sony/gobreaker/v2"
)

// BreakerOptions configure a breaker. All but Answered are required.
type BreakerOptions struct {
	Outage   *Outage          // begins when the breaker opens, and ends when it closes
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
