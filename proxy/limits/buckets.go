package limits

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/tipcache/tipcache/upstream"
)

// buckets are the limits of this process. They remember clients in two
// generations: a client that asks is moved to the young one. In time, or when it
// is full, the young one becomes the old one, and the old one is forgotten.
// Unlike a cache that keeps the popular, this always keeps the newest: in a flood
// of addresses those would else begin with a full bucket again and again.
type buckets struct {
	seed   maphash.Seed
	shards [16]bucketShard
}

const (
	// A bucket is full when it was left alone for its window, and then as good
	// as new: windows up to generation are forgotten without loss.
	generation = time.Hour
	maxYoung   = 2048 // clients in a shard's generation: 16 MB in all, or so
)

// bucketShard is a part of the clients, with a lock of its own.
type bucketShard struct {
	mu         sync.Mutex
	young, old map[limit]*bucket
	born       time.Time // of the young generation
}

// A bucket is what a client may ask for at present.
type bucket struct {
	*rate.Limiter
	prepaid atomic.Int64 // events that were taken from the shared bucket before they came
}

// spend takes n requests from the bucket of a limit, if they are in it.
func (b *buckets) spend(l limit, n int, now time.Time) decision {
	limiter := b.find(l, now)
	allowed := limiter.AllowN(now, n)
	tokens := limiter.TokensAt(now)
	until := func(want float64) time.Duration {
		return time.Duration(max(0, want-tokens) / float64(limiter.Limit()) * float64(time.Second))
	}
	return decision{allowed: allowed, remaining: max(0, int(tokens)), reset: until(float64(l.Burst)), retry: until(float64(n))}
}

// wait is the time until a request would be allowed; it takes nothing.
func (b *buckets) wait(l limit, now time.Time) time.Duration {
	limiter := b.find(l, now)
	lacking := 1 - limiter.TokensAt(now)
	if lacking <= 0 {
		return 0
	}
	return max(time.Duration(lacking/float64(limiter.Limit())*float64(time.Second)), time.Nanosecond)
}

// find gives the bucket of a limit. A rate that changed begins with a full one.
func (b *buckets) find(l limit, now time.Time) *bucket {
	address := l.network.As16()
	hash := maphash.String(b.seed, l.name) ^ maphash.Bytes(b.seed, address[:])
	s := &b.shards[hash%uint64(len(b.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if limiter, ok := s.young[l]; ok && now.Sub(s.born) < generation {
		return limiter
	}
	if len(s.young) >= maxYoung || now.Sub(s.born) >= generation {
		s.old, s.young, s.born = s.young, map[limit]*bucket{}, now
	}
	limiter, ok := s.old[l]
	if !ok {
		limiter = &bucket{Limiter: rate.NewLimiter(rate.Limit(float64(l.Requests)/l.Per.Seconds()), l.Burst)}
	}
	s.young[l] = limiter
	return limiter
}

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
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.Timeout, time.Minute)) // 0: in tests alone
		defer cancel()
		// The namespace is escaped, so that it ends at the first colon; the library puts rate: before all.
		key := "tipcache:1:" + url.QueryEscape(s.Namespace()) + ":" + l.kind + ":" + l.String()
		rate := redis_rate.Limit{Rate: l.Requests, Period: l.Per, Burst: l.Burst}
		err = upstream.Guard(s.log, "redis", func() (err error) { // the library panics at a reply that makes no sense
			if least > 1 {
				result, err = s.limiter.AllowN(ctx, key, rate, least)
			} else {
				result, err = s.limiter.AllowAtMost(ctx, key, rate, most)
			}
			return err
		})
		return result, err
	})
	if err == nil && (told.ResetAfter < 0 || told.ResetAfter > l.window()+time.Second) { // negative: beyond what a Duration holds
		err = errEmptier
	}
	if err != nil {
		return decision{}, err
	}
	return decision{allowed: told.Allowed > 0, remaining: told.Remaining, reset: told.ResetAfter, retry: told.RetryAfter, taken: told.Allowed}, nil
}
