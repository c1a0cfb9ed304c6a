package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// The breaker opens after so many failures in a row, and lets one operation
// through after each rest to see whether the shared store is well again.
const (
	failuresToOpen = 5
	breakerRest    = 2 * time.Second
)

// shared is the store that replicas share. All its operations go through do.
type shared struct {
	rdb     redis.UniversalClient
	now     func() time.Time
	timeout time.Duration // of one operation
	expiry  time.Duration // of a lease
	breaker *gobreaker.CircuitBreaker[struct{}]
	codec   *codec
	counts  *counts
	log     *slog.Logger

	askFor, settle, keep, abandon *redis.Script
}

func newShared(o *Options, counts *counts) *shared {
	return &shared{
		rdb: o.Redis, now: o.Now, timeout: o.RedisTimeout, expiry: o.Lease,
		breaker: newBreaker(o.Logger), codec: newCodec(), counts: counts, log: o.Logger,
		askFor: redis.NewScript(askScript), settle: redis.NewScript(settleScript),
		keep: redis.NewScript(keepScript), abandon: redis.NewScript(abandonScript),
	}
}

func newBreaker(log *slog.Logger) *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         "shared store",
		Timeout:      breakerRest,
		ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= failuresToOpen },
		IsSuccessful: func(err error) bool { return err == nil || isReply(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) },
		// Runs under the breaker's mutex, so it must not call the breaker.
		OnStateChange: func(name string, from, to gobreaker.State) {
			log.Warn("breaker changed", "breaker", name, "from", from.String(), "to", to.String())
		},
	})
}

// do runs one operation within its time, if the breaker lets it. Giving up
// because the flight is over says nothing about the store.
func (s *shared) do(ctx context.Context, op func(context.Context) error) error {
	_, err := s.breaker.Execute(func() (struct{}, error) {
		within, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		err := op(within)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Canceled, err)
		}
		return struct{}{}, err
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		s.counts.trouble(troubleOf(err))
		s.log.Debug("shared store failed", "err", err)
	}
	return err
}

// entryKey is where the entry of a key is. The namespace is escaped, so that it
// ends at the first colon: no chain's key can be read as another's.
func entryKey(namespace, key string) string {
	return "tipcache:1:{" + url.QueryEscape(namespace) + ":" + key + "}"
}

// channelOf is the channel that wakes those who wait for a lease.
func channelOf(namespace string) string { return "tipcache:1:" + url.QueryEscape(namespace) }

// keepFor is how long an entry stays in the store: no longer than it can serve.
func (s *shared) keepFor(e *Entry, keep time.Duration) time.Duration {
	if e.Expires.IsZero() {
		return keep
	}
	return min(keep, e.Expires.Sub(s.now()))
}
