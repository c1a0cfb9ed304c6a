package limits

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"
)

// buckets are the limits of this process. They hold clients in two generations. A client that sends a request moves to
// the young one. After some time, or when it is full, the young generation becomes the old one, and the old one is
// dropped. New clients are always retained. A cache that retains popular entries would evict them in a flood of
// addresses, and a client that returns would find a full bucket.
type buckets struct {
	seed    maphash.Seed
	shards  [16]bucketShard
	onDirty func() // called when a shard becomes dirty; nil if replicas share no limits
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
	young, old map[uint64]*bucket // by hash of the limit
	born       time.Time          // when the young generation began
	dirty      bool               // a bucket may have unsettled requests
}

// A bucket is full at some time, and one request makes that later by the time of its refill.
type bucket struct {
	limit     limit
	full      time.Time // later than in a window if the other replicas have admitted more than the rate allows
	unsettled int       // requests that Redis does not have yet
	since     time.Time // when the first of them was admitted
}

// spend takes n requests from the bucket of a limit, if it has them.
func (b *buckets) spend(l limit, n int, now time.Time) decision {
	s, k := b.lock(l, now)
	defer s.mu.Unlock()
	untilFull := max(0, k.full.Sub(now))
	after := untilFull + l.cost(n)
	if after > l.window() {
		return l.decide(false, n, untilFull)
	}
	k.full = now.Add(after)
	if b.onDirty != nil && !l.isSlow() {
		if k.unsettled == 0 {
			k.since = now
		}
		k.unsettled += n
		b.markDirty(s)
	}
	return l.decide(true, n, after)
}

// wait returns the time until n requests would be allowed. It takes nothing.
func (b *buckets) wait(l limit, n int, now time.Time) time.Duration {
	s, k := b.lock(l, now)
	defer s.mu.Unlock()
	return max(0, max(0, k.full.Sub(now))+l.cost(n)-l.window())
}

// lock locks the shard of a limit, and returns the limit's bucket. A changed rate begins with a full bucket.
func (b *buckets) lock(l limit, now time.Time) (*bucketShard, *bucket) {
	hash := b.hash(&l)
	s := &b.shards[hash%uint64(len(b.shards))]
	s.mu.Lock()
	k, ok := s.young[hash]
	if ok && k.limit == l && now.Sub(s.born) < generation {
		return s, k
	}
	if len(s.young) >= maxYoung || now.Sub(s.born) >= generation {
		s.old, s.young, s.born = s.young, map[uint64]*bucket{}, now
	}
	if k, ok = s.old[hash]; !ok || k.limit != l { // another limit with this hash does not occur in practice
		k = &bucket{limit: l}
	}
	delete(s.old, hash)
	s.young[hash] = k
	return s, k
}

// hash returns the hash of a limit. maphash.Comparable would allocate.
func (b *buckets) hash(l *limit) uint64 {
	address := l.network.As16()
	var fixed [40]byte
	n := copy(fixed[:], address[:])
	for _, number := range [...]int{l.Requests, int(l.Per), l.Burst} {
		binary.NativeEndian.PutUint64(fixed[n:], uint64(number))
		n += 8
	}
	hash := maphash.Bytes(b.seed, fixed[:])
	for _, text := range [...]string{l.kind, l.rule, l.name} {
		if text != "" {
			hash = hash*31 ^ maphash.String(b.seed, text)
		}
	}
	return hash
}

// markDirty must be called with the shard's lock.
func (b *buckets) markDirty(s *bucketShard) {
	if !s.dirty {
		s.dirty = true
		b.onDirty()
	}
}
