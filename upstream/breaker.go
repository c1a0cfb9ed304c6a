package upstream

import (
	"time"

	"github.com/sony/gobreaker/v2"
)

// BreakerOptions configure a breaker. All are required except Answered.
type BreakerOptions struct {
	Outage   *Outage          // begins when the breaker opens, and ends when it closes
	Failures int              // number of consecutive failures that open the breaker
	Cooldown time.Duration    // how long the open breaker rejects all requests
	Excluded func(error) bool // reports whether an error is neither a failure nor a success
	Answered func(error) bool // reports whether an error is an answer and so a success; nil means no error is
}

// NewBreaker returns the circuit breaker of an upstream. Execution clients have none: package evm pauses them for longer
// after each failure, and for other reasons.
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
