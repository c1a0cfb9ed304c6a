package limits

import (
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
	limiter   *redis_rate.Limiter
	timeout   time.Duration
	namespace func() string
	log       *slog.Logger
	breaker   *gobreaker.CircuitBreaker[*redis_rate.Result]
}

// After so many failures in a row Redis is passed over, and asked by one request
// after each rest.
const (
	sharedFailures = 3
	sharedRest     = 2 * time.Second
)

// newSharedBuckets is nil where there is no Redis.
func newSharedBuckets(o Shared, log *slog.Logger) *sharedBuckets {
	if o.Redis == nil {
		return nil
	}
	if o.Namespace == nil {
		o.Namespace = func() string { return "" }
	}
	return &sharedBuckets{
		limiter: redis_rate.NewLimiter(o.Redis), timeout: o.Timeout, namespace: o.Namespace, log: log,
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

// keyOf names a bucket. The namespace is escaped, so that it ends at the first
// colon; the library puts rate: before all.
func (s *sharedBuckets) keyOf(who string) string {
	return "tipcache:1:" + url.QueryEscape(s.namespace()) + ":" + who
}

// A verdict is what a shared bucket says to one request, and how many were taken.
type verdict struct {
	decision
	taken int
}

// spend takes from least to most requests from who's bucket: as many as there are, or all
// where least is more than one. An error says that Redis did
// not answer in its time, or is not asked at present.
func (s *sharedBuckets) spend(ctx context.Context, who string, r Rate, least, most int) (verdict, error) {
	told, err := s.breaker.Execute(func() (result *redis_rate.Result, err error) {
		defer func() {
			if p := recover(); p != nil { // the client library, at a reply that makes no sense
				s.log.Error("client of the shared limits panicked", "panic", p, "stack", string(debug.Stack()))
				err = fmt.Errorf("client of the shared limits panicked: %v", p)
			}
		}()
		ctx, cancel := s.bound(ctx)
		defer cancel()
		limit := redis_rate.Limit{Rate: r.Requests, Period: r.Per, Burst: r.Burst}
		if least > 1 {
			return s.limiter.AllowN(ctx, s.keyOf(who), limit, least)
		}
		return s.limiter.AllowAtMost(ctx, s.keyOf(who), limit, most)
	})
	if err == nil && (told.ResetAfter < 0 || told.ResetAfter > r.window()+time.Second) { // negative: beyond what a Duration holds
		err = errEmptier
	}
	if err != nil {
		return verdict{}, err
	}
	d := decision{allowed: told.Allowed > 0, remaining: told.Remaining, reset: told.ResetAfter, retry: told.RetryAfter}
	return verdict{d, told.Allowed}, nil
}

// bound ends the wait for Redis before the request's own time is over.
func (s *sharedBuckets) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timeout)
}
