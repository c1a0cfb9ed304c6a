package limits

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
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
