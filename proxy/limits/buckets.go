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

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/tipcache/tipcache/upstream"
)

// buckets are the limits of this process. They hold clients in two generations. A client that sends a request moves to
// the young one. After some time, or when it is full, the young generation becomes the old one, and the old one is
// dropped. New clients are always retained. A cache that retains popular entries would evict them in a flood of
// addresses, and a client that returns would find a full bucket.
type buckets struct {
	seed   maphash.Seed
	shards [16]bucketShard
}

const (
	// A bucket that is unused for its window is full, like a new one. So a generation that ends
	// by age loses nothing for windows up to generation.
	generation = time.Hour
	maxYoung   = 2048 // clients in a shard's generation; about 16 MB in all
)

// bucketShard holds a part of the clients under one lock.
type bucketShard struct {
	mu         sync.Mutex
	young, old map[limit]*bucket
	born       time.Time // when the young generation began
}

type bucket struct {
	*rate.Limiter
	prepaid atomic.Int64 // events taken from the shared bucket in advance
}

// spend takes n requests from the bucket of a limit, if it has them.
func (b *buckets) spend(l limit, n int, now time.Time) decision {
	limiter := b.find(l, now)
	allowed, tokens := limiter.AllowN(now, n), limiter.TokensAt(now)
	return decision{allowed: allowed, remaining: max(0, int(tokens)), reset: l.until(l.Burst, tokens), retry: l.until(n, tokens)}
}

// wait returns the time until a request would be allowed. It takes nothing.
func (b *buckets) wait(l limit, now time.Time) time.Duration {
	return l.until(1, b.find(l, now).TokensAt(now))
}

// find returns the bucket of a limit. A changed rate begins with a full bucket.
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

// sharedBuckets are the limits that replicas share, as buckets in Redis. Each key there expires when its bucket is full.
type sharedBuckets struct {
	Shared
	log     *slog.Logger
	breaker *gobreaker.CircuitBreaker[decision]
}

// After sharedFailures failures in a row, Redis is skipped. After each sharedRest, one request tries it.
const (
	sharedFailures = 3
	sharedRest     = 2 * time.Second
)

func newSharedBuckets(o Shared, log *slog.Logger) *sharedBuckets {
	if o.Namespace == nil {
		o.Namespace = func() string { return "" }
	}
	return &sharedBuckets{
		Shared: o, log: log,
		breaker: upstream.NewBreaker[decision](upstream.BreakerOptions{
			Outage:   upstream.NewOutage(log, "shared limits"),
			Failures: sharedFailures,
			Cooldown: sharedRest,
			Excluded: func(err error) bool { return errors.Is(err, context.Canceled) },
		}),
	}
}

// errEmptier means that an untrusted writer, or a replica with an earlier rate, wrote the bucket.
var errEmptier = errors.New("the shared bucket is emptier than its rate allows")

// spend takes as many requests as the bucket of a limit has, up to most. With a least above 1, it takes least or none.
// It returns an error if Redis did not answer in time, or is skipped after failures.
func (s *sharedBuckets) spend(ctx context.Context, l limit, least, most int) (decision, error) {
	d, err := s.breaker.Execute(func() (d decision, err error) {
		// The deadline of a client's call says nothing about Redis. A zero Timeout means a minute.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(s.Timeout, time.Minute))
		defer cancel()
		// The namespace is escaped, so that it ends at the first colon.
		key := "tipcache:1:" + url.QueryEscape(s.Namespace()) + ":" + l.kind + ":" + l.String()
		err = upstream.Guard(s.log, "redis", func() (err error) { // Take panics on malformed replies
			d.taken, d.remaining, d.reset, d.retry, err = s.Redis.Take(ctx, key, l.Requests, l.Per, l.Burst, least, most)
			return err
		})
		return d, err
	})
	if err == nil && (d.reset < 0 || d.reset > l.window()+time.Second) { // negative after an overflow
		err = errEmptier
	}
	if err != nil {
		return decision{}, err
	}
	d.allowed = d.taken > 0
	return d, nil
}
