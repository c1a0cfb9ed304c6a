package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// errorKind is a kind of failure of the store.
type errorKind int

const (
	timedOut errorKind = iota
	unreachable
	unavailable // not tried, for the breaker is open
	full        // no memory left for writes
	refused     // any other error it answers with
	panicked    // the client did, on what the store answered
	corrupt     // an entry that cannot be decoded
	foreign     // a key that holds something else
	errorKinds  // how many there are
)

func (k errorKind) String() string {
	return [...]string{"timeout", "unreachable", "unavailable", "full", "refused", "panic", "corrupt", "foreign"}[k]
}

// kindOf classifies the failure of an operation.
func kindOf(err error) errorKind {
	var slow interface{ Timeout() bool }
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return unavailable
	case errors.Is(err, errPanic):
		return panicked
	case isReply(err) && strings.HasPrefix(err.Error(), "OOM"):
		return full
	case isReply(err):
		return refused
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, redis.ErrPoolTimeout), errors.As(err, &slow) && slow.Timeout():
		return timedOut
	default:
		return unreachable
	}
}

// isReply tells an error that the store has answered from silence. However
// unwelcome, an answer shows that the store lives and costs no caller a timeout.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// refused counts an error that the store has answered one of several operations with.
func (s *Store) refused(err error) {
	s.failed(kindOf(err))
	s.o.Logger.Debug("shared store failed", "error", err)
}

func (s *Store) failed(kind errorKind) { s.errors[kind].Inc() }

// register makes the metrics, and puts them on the registerer if there is one.
func (s *Store) register(reg prometheus.Registerer) error {
	count := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tipcache_cache_shared_errors_total", Help: "Failures of the shared store by kind.",
	}, []string{"kind"})
	for kind := range errorKinds {
		s.errors[kind] = count.WithLabelValues(kind.String())
	}
	s.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "tipcache_cache_shared_duration_seconds", Help: "Time an exchange with the shared store took, failed ones included.",
		Buckets: prometheus.ExponentialBuckets(.0001, 2.5, 9), // 0.1 ms to 153 ms
	})
	state := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tipcache_cache_shared_breaker_state", Help: "Breaker of the shared store: 0 closed, 1 half-open, 2 open.",
	}, func() float64 { return float64(s.breaker.State()) })
	if reg == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{count, state, s.seconds} {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("register metrics of the shared store: %w", err)
		}
	}
	return nil
}
