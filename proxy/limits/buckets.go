package limits

import (
	"hash/maphash"
	"net/netip"
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
	young, old map[bucketName]*bucket
	born       time.Time // of the young generation
}

// A bucket is what a client may ask for at present.
type bucket struct {
	*rate.Limiter
	prepaid atomic.Int64 // events that were taken from the shared bucket before they came
}

// bucketName has the rate in it: a rate that changed begins with a full bucket.
type bucketName struct {
	owner
	rate Rate
}

// An owner is whose requests go together: a network's, or those of a key's name.
type owner struct {
	kind    string // address or key
	name    string
	network netip.Addr // or its first address
}

// ownerOf is the name that a client is limited by without a key: its IPv4 address, or its
// IPv6 network, of whose addresses it can take any.
func ownerOf(client netip.Addr) owner {
	if client.Is6() {
		network, _ := client.Prefix(64)
		client = network.Addr()
	}
	return owner{kind: "address", network: client}
}

// String names the owner to others.
func (o *owner) String() string {
	switch {
	case o.kind == "key":
		return o.name
	case o.network.Is6():
		return o.network.String() + "/64"
	}
	return o.network.String()
}

func newBuckets() *buckets { return &buckets{seed: maphash.MakeSeed()} }

// spend takes n requests from who's bucket, if they are in it.
func (b *buckets) spend(who owner, r Rate, n int, now time.Time) decision {
	limiter := b.shard(&who).find(bucketName{who, r}, now)
	allowed := limiter.AllowN(now, n)
	tokens := limiter.TokensAt(now)
	until := func(want float64) time.Duration {
		return time.Duration(max(0, want-tokens) / float64(limiter.Limit()) * float64(time.Second))
	}
	return decision{allowed: allowed, remaining: max(0, int(tokens)), reset: until(float64(r.Burst)), retry: until(float64(n))}
}

// has tells whether a request of who's would be allowed, and takes nothing.
func (b *buckets) has(who owner, r Rate, now time.Time) bool { return b.wait(who, r, now) == 0 }

// wait is the time until a request of who's would be allowed; it takes nothing.
func (b *buckets) wait(who owner, r Rate, now time.Time) time.Duration {
	limiter := b.shard(&who).find(bucketName{who, r}, now)
	lacking := 1 - limiter.TokensAt(now)
	if lacking <= 0 {
		return 0
	}
	return max(time.Duration(lacking/float64(limiter.Limit())*float64(time.Second)), time.Nanosecond)
}

// prepaid is how many events of who's were paid for before they came.
func (b *buckets) prepaid(who owner, r Rate, now time.Time) *atomic.Int64 {
	return &b.shard(&who).find(bucketName{who, r}, now).prepaid
}

func (b *buckets) shard(who *owner) *bucketShard {
	address := who.network.As16()
	hash := maphash.String(b.seed, who.name) ^ maphash.Bytes(b.seed, address[:])
	return &b.shards[hash%uint64(len(b.shards))]
}

func (s *bucketShard) find(name bucketName, now time.Time) *bucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limiter, ok := s.young[name]; ok && now.Sub(s.born) < generation {
		return limiter
	}
	if len(s.young) >= maxYoung || now.Sub(s.born) >= generation {
		s.old, s.young, s.born = s.young, map[bucketName]*bucket{}, now
	}
	limiter, ok := s.old[name]
	if !ok {
		limiter = &bucket{Limiter: rate.NewLimiter(rate.Limit(float64(name.rate.Requests)/name.rate.Per.Seconds()), name.rate.Burst)}
	}
	s.young[name] = limiter
	return limiter
}
