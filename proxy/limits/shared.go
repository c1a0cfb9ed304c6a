package limits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream"
)

// sharedBuckets are the limits that replicas have in common: the same buckets,
// in Redis. Each key there expires when its bucket is full.
type sharedBuckets struct {
	Shared
	limiter *redis_rate.Limiter
	log     *slog.Logger
	breaker *gobreaker.CircuitBreaker[*redis_rate.Result]
}

// After so many failures in a row Redis is passed over, and asked by one request
// after each rest.
const (
	sharedFailures = 3
	sharedRest     = 2 * time.Second
)

func newSharedBuckets(o Shared, log *slog.Logger) *sharedBuckets {
	if o.Namespace == nil {
		o.Namespace = func() string { return "" }
	}
	return &sharedBuckets{
		Shared: o, limiter: redis_rate.NewLimiter(o.Redis), log: log,
		breaker: upstream.NewBreaker[*redis_rate.Result](upstream.BreakerOptions{
			Outage:   upstream.NewOutage(log, "shared limits"),
			Failures: sharedFailures,
			Cooldown: sharedRest,
			Excluded: func(err error) bool { return errors.Is(err, context.Canceled) },
		}),
	}
}

// errEmptier is what others have written there, or a rate that was in force before.
var errEmptier = errors.New("the shared bucket is emptier than any of this rate can be")

// spend takes from least to most requests from the bucket of a limit: as many as there are, or all
// where least is more than one. An error says that Redis did
// not answer in its time, or is not asked at present.
func (s *sharedBuckets) spend(ctx context.Context, l limit, least, most int) (decision, error) {
	told, err := s.breaker.Execute(func() (result *redis_rate.Result, err error) {
		defer func() {
			if p := recover(); p != nil { // the client library, at a reply that makes no sense
				s.log.Error("client of the shared limits panicked", "panic", p, "stack", string(debug.Stack()))
				err = fmt.Errorf("client of the shared limits panicked: %v", p)
			}
		}()
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.Timeout, time.Minute)) // 0: in tests alone
		defer cancel()
		// The namespace is escaped, so that it ends at the first colon; the library puts rate: before all.
		key := "tipcache:1:" + url.QueryEscape(s.Namespace()) + ":" + l.kind + ":" + l.String()
		rate := redis_rate.Limit{Rate: l.Requests, Period: l.Per, Burst: l.Burst}
		if least > 1 {
			return s.limiter.AllowN(ctx, key, rate, least)
		}
		return s.limiter.AllowAtMost(ctx, key, rate, most)
	})
	if err == nil && (told.ResetAfter < 0 || told.ResetAfter > l.window()+time.Second) { // negative: beyond what a Duration holds
		err = errEmptier
	}
	if err != nil {
		return decision{}, err
	}
	return decision{allowed: told.Allowed > 0, remaining: told.Remaining, reset: told.ResetAfter, retry: told.RetryAfter, taken: told.Allowed}, nil
}
