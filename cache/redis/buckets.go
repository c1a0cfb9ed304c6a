package redis

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// Buckets are token buckets in Redis, which replicas share. Each key expires when its bucket is full.
type Buckets struct{ limiter *redis_rate.Limiter }

// NewBuckets returns the buckets in rdb, which needs ContextTimeoutEnabled. The caller closes it.
func NewBuckets(rdb redis.UniversalClient) *Buckets {
	return &Buckets{redis_rate.NewLimiter(rdb)}
}

// Take takes as many requests as the bucket has, up to most. With a least above 1, it takes least or none. The bucket holds
// burst requests, and is refilled with the given number of requests per period. Take panics on malformed replies.
func (b *Buckets) Take(ctx context.Context, key string, requests int, period time.Duration, burst, least, most int) (taken, remaining int, reset, retry time.Duration, err error) {
	rate := redis_rate.Limit{Rate: requests, Period: period, Burst: burst}
	var result *redis_rate.Result
	if least > 1 {
		result, err = b.limiter.AllowN(ctx, key, rate, least)
	} else {
		result, err = b.limiter.AllowAtMost(ctx, key, rate, most)
	}
	if err != nil {
		return 0, 0, 0, 0, err
	}
	return result.Allowed, result.Remaining, result.ResetAfter, result.RetryAfter, nil
}
