package limits

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream"
)

// Shared configures limits in Redis, which replicas share. The zero value keeps limits in this process.
type Shared struct {
	Redis     Buckets
	Timeout   time.Duration // timeout of one exchange; 0 means a minute
	Namespace func() string // separates the limits of different chains; nil means ""
}

// Buckets are token buckets that replicas share; redis.Store implements it. The interface names no type of a client
// library: each package that imports this one would compile that type's methods again.
type Buckets interface {
	// Spend charges buckets in one round trip, and sets the results. It returns an error if Redis carried out no debit.
	Spend(ctx context.Context, debits []upstream.Debit) error
}

// sharedBuckets are the limits that replicas share. Requests are counted in the buckets of this process, and settled with
// those in Redis later. A settlement also charges what exceeds the bucket: then Redis has a debt, by which the bucket of each
// replica is short after its next settlement. Requests of rates below one per second ask Redis first.
//
// So in any time T, a client gets at most rate × T + burst × replicas, and what the replicas admit between two
// settlements of the client.
type sharedBuckets struct {
	Shared
	local   *buckets
	log     *slog.Logger
	breaker *gobreaker.CircuitBreaker[struct{}]
	running chan struct{} // has a value during a settlement
	dirty   atomic.Int64  // number of dirty shards, including those being settled; a settlement is scheduled while it is above 0
}

const (
	settleInterval = 250 * time.Millisecond
	maxSettled     = 1000 // clients in one settlement, those with most requests first

	// A client that has waited this long comes before those with more requests. With all buckets in use, each is settled
	// within another 16.4 s, the time of 65 settlements.
	longWait = 3 * time.Second

	maxDebt = 10 // in windows of at least a second
)

// mostDebt returns how long a bucket with the largest debt takes to fill. A small burst has a window that is shorter than the time
// between two settlements. In that time, each replica can admit as many requests as all replicas together may.
func mostDebt(l *limit) time.Duration { return maxDebt * max(l.window(), time.Second) }

// After sharedFailures failures in a row, Redis is skipped. After each sharedRest, one exchange tries it.
const (
	sharedFailures = 3
	sharedRest     = 2 * time.Second
)

func newSharedBuckets(o Shared, local *buckets, log *slog.Logger) *sharedBuckets {
	if o.Namespace == nil {
		o.Namespace = func() string { return "" }
	}
	s := &sharedBuckets{
		Shared: o, local: local, log: log, running: make(chan struct{}, 1),
		breaker: upstream.NewBreaker[struct{}](upstream.BreakerOptions{
			Outage:   upstream.NewOutage(log, "shared limits"),
			Failures: sharedFailures,
			Cooldown: sharedRest,
			Excluded: func(error) bool { return false }, // only the end of the process cancels an exchange
		}),
	}
	local.onDirty = func() {
		if s.dirty.Add(1) == 1 {
			s.schedule()
		}
	}
	return s
}

// key returns the Redis key of a limit's bucket. A changed rate has another bucket, and replicas with the same rule share its
// limit. The namespace is escaped, so that it ends at the first colon.
func (s *sharedBuckets) key(l *limit) string {
	kind := l.kind
	if l.rule != "" {
		sum := sha256.Sum256([]byte(l.rule))
		kind += "-" + hex.EncodeToString(sum[:6])
	}
	return fmt.Sprintf("tipcache:1:rate:%s:%s:%d/%v/%d:%s", url.QueryEscape(s.Namespace()), kind, l.Requests, l.Per, l.Burst, l.String())
}

// spend sends debits. It returns an error if Redis did not answer in time, or is skipped after failures.
func (s *sharedBuckets) spend(ctx context.Context, debits []upstream.Debit) error {
	_, err := s.breaker.Execute(func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.Timeout, time.Minute))
		defer cancel()
		return struct{}{}, upstream.Guard(s.log, "redis", func() error { return s.Redis.Spend(ctx, debits) })
	})
	return err
}

// isPlausible reports whether a bucket of a debit can be in the state that Redis reports.
func isPlausible(d *upstream.Debit) bool {
	return d.Done && d.UntilFull >= 0 && d.UntilFull <= d.Most+time.Second
}

var errImplausible = errors.New("the shared bucket is emptier than its rate allows")

// take takes n requests from the bucket of a limit in Redis, if it has them.
func (s *sharedBuckets) take(ctx context.Context, l limit, n int) (decision, error) {
	debits := []upstream.Debit{{Key: s.key(&l), Cost: l.cost(n), Most: l.window(), Asks: true}}
	// The deadline of a client's call says nothing about Redis.
	if err := s.spend(context.WithoutCancel(ctx), debits); err != nil {
		return decision{}, err
	}
	d := &debits[0]
	if !isPlausible(d) {
		return decision{}, errImplausible
	}
	return l.decide(!d.Refused, n, d.UntilFull), nil
}

// A dueBucket is a bucket with unsettled requests.
type dueBucket struct {
	shard   *bucketShard
	bucket  *bucket
	urgency int // the number of requests, or more after longWait
}

func (s *sharedBuckets) schedule() {
	time.AfterFunc(settleInterval, func() { s.settle(context.Background()) })
}

// settleAll settles until no bucket has unsettled requests, Redis fails, or ctx ends.
func (s *sharedBuckets) settleAll(ctx context.Context) {
	for s.settle(ctx) {
	}
}

// settle charges the buckets in Redis for the requests that this process has admitted since the last settlement, and schedules
// the next one if more have been. While Redis fails, requests are never charged: each replica counts alone. It reports whether
// Redis answered, and some buckets must wait for the next settlement.
func (s *sharedBuckets) settle(ctx context.Context) (more bool) {
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	case <-ctx.Done():
		return false
	}
	now := time.Now()
	due, cleaned := s.local.due(now)
	if len(due) > maxSettled {
		slices.SortFunc(due, func(a, b dueBucket) int { return cmp.Compare(b.urgency, a.urgency) })
	}
	settled, later := due[:min(len(due), maxSettled)], due[min(len(due), maxSettled):]
	debits := make([]upstream.Debit, len(settled))
	for i, a := range settled {
		debits[i] = s.debit(a, now)
	}
	err := s.spend(ctx, debits)
	if err == nil {
		for i, a := range settled {
			a.learn(&debits[i], now)
		}
		for _, a := range later {
			a.shard.mu.Lock()
			s.local.markDirty(a.shard)
			a.shard.mu.Unlock()
		}
	} else {
		for _, a := range later {
			s.debit(a, now)
		}
	}
	if s.dirty.Add(-cleaned) > 0 {
		s.schedule()
	}
	return err == nil && len(later) > 0
}

// due returns the buckets with unsettled requests, and marks their shards as clean.
func (b *buckets) due(now time.Time) (found []dueBucket, cleaned int64) {
	for i := range b.shards {
		s := &b.shards[i]
		s.mu.Lock()
		if s.dirty {
			s.dirty = false
			cleaned++
			for _, generation := range [...]map[uint64]*bucket{s.young, s.old} {
				for _, k := range generation {
					if k.unsettled > 0 {
						found = append(found, dueBucket{s, k, k.urgency(now)})
					}
				}
			}
		}
		s.mu.Unlock()
	}
	return found, cleaned
}

func (k *bucket) urgency(now time.Time) int {
	if waited := now.Sub(k.since); waited >= longWait {
		return math.MaxInt/2 + int(waited)
	}
	return k.unsettled
}

// debit returns the debit for the unsettled requests of a bucket, which then are settled.
func (s *sharedBuckets) debit(a dueBucket, now time.Time) upstream.Debit {
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	k := a.bucket
	d := upstream.Debit{Cost: k.limit.cost(k.unsettled), Age: max(0, now.Sub(k.since)), Most: mostDebt(&k.limit)}
	k.unsettled = 0
	d.Key = s.key(&k.limit)
	return d
}

// learn takes over from Redis what other replicas have admitted. The debit was sent at a time.
func (a dueBucket) learn(d *upstream.Debit, sent time.Time) {
	if !isPlausible(d) {
		return
	}
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	k := a.bucket
	if full := sent.Add(d.UntilFull + k.limit.cost(k.unsettled)); full.After(k.full) {
		k.full = full
	}
}
