package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
)

// Options of a store. The zero value of each field means its default. The times
// nest: Timeout < Lease < [cache.Options.FlightTimeout].
type Options struct {
	Timeout    time.Duration         // longest wait for Redis to answer, and half of the longest for a read that has to wait for its turn; 100 ms
	Lease      time.Duration         // longest delay caused by a replica that dies while it asks the origin; 3 s
	SealKey    []byte                // entries are sealed with it, and those without its seal are absent; nil = no seals
	Now        func() time.Time      // the clock that entries expire by; time.Now
	Logger     *slog.Logger          // nil = discard
	Registerer prometheus.Registerer // nil = no metrics
}

// WithDefaults fills in what was left zero.
func (o Options) WithDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 100*time.Millisecond)
	o.Lease = cmp.Or(o.Lease, 3*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store implements [cache.Shared]. All its operations go through do.
type Store struct {
	rdb     redis.UniversalClient
	o       Options
	breaker *gobreaker.CircuitBreaker[struct{}]
	outage  *upstream.Outage // of all operations: a reply of any kind completes one
	writes  *upstream.Outage // of acquiring leases and storing entries, which Redis may refuse
	codec   *codec
	errors  [errorKinds]prometheus.Counter
	seconds prometheus.Histogram

	cluster   bool
	slotted   atomic.Bool // it is no Cluster to the client, but has hash slots
	answered  atomic.Bool // once, at least
	unsharded atomic.Bool // it is a Cluster that knows no sharded channels, or allows none

	exchanges exchanges
	nodes     sync.Map // the exchanges with the nodes of a Cluster, by their addresses
	settles   settles

	reminders [errorKinds]rate.Sometimes // when the log is told of entries that cannot be read
	untold    [errorKinds]atomic.Int64   // how many there were since it was

	acquire, settle, keep *redis.Script
}

var _ cache.Shared = (*Store)(nil)

// New returns a store that uses rdb, which wants ContextTimeoutEnabled and a PoolTimeout below
// Timeout, and stays the caller's to close, after the caches. It fails if an option is negative or
// the metrics cannot be registered.
func New(rdb redis.UniversalClient, o Options) (*Store, error) {
	if o.Timeout < 0 || o.Lease < 0 {
		return nil, fmt.Errorf("redis: an option is negative: %v", min(o.Timeout, o.Lease))
	}
	o = o.WithDefaults()
	s := &Store{
		rdb: rdb, o: o, outage: upstream.NewOutage(o.Logger, "Redis"), writes: upstream.NewOutage(o.Logger, "writes to Redis"), codec: newCodec(o.SealKey), settles: settles{every: settleEvery, held: map[string]bool{}},
		acquire: redis.NewScript(acquireScript), settle: redis.NewScript(settleScript),
		keep: redis.NewScript(keepScript),
	}
	s.breaker = newBreaker(s.outage)
	_, s.cluster = rdb.(*redis.ClusterClient)
	for kind := range s.reminders {
		s.reminders[kind].Interval = linesApart
	}
	return s, s.register(o.Registerer)
}

// register makes the metrics, and puts them on the registerer; without one they are not exported.
func (s *Store) register(reg prometheus.Registerer) error {
	own := prometheus.NewRegistry()
	f := promauto.With(own)
	count := f.NewCounterVec(prometheus.CounterOpts{
		Name: "tipcache_cache_shared_errors_total", Help: "Redis errors by kind.",
	}, []string{"kind"})
	for kind, name := range kindNames {
		s.errors[kind] = count.WithLabelValues(name)
	}
	s.seconds = f.NewHistogram(prometheus.HistogramOpts{
		Name: "tipcache_cache_shared_duration_seconds", Help: "Duration of exchanges with Redis in seconds, including failed ones.",
		Buckets: prometheus.ExponentialBuckets(.0001, 2.5, 9), // 0.1 ms to 153 ms
	})
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tipcache_cache_shared_breaker_state", Help: "Circuit breaker of Redis: 0 closed, 1 half-open, 2 open.",
	}, func() float64 { return float64(s.breaker.State()) })
	if err := cmp.Or[prometheus.Registerer](reg, prometheus.NewRegistry()).Register(own); err != nil {
		return fmt.Errorf("register metrics of the shared store: %w", err)
	}
	return nil
}

// The breaker opens after so many failures in a row, and lets one operation
// through after each rest to see whether Redis is well again.
const (
	failuresToOpen = 5
	breakerRest    = 2 * time.Second
)

func newBreaker(outage *upstream.Outage) *gobreaker.CircuitBreaker[struct{}] {
	return upstream.NewBreaker[struct{}](upstream.BreakerOptions{
		Outage:   outage,
		Failures: failuresToOpen,
		Cooldown: breakerRest,
		Excluded: func(err error) bool {
			return errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrPoolTimeout) // Redis was not asked
		},
		Answered: isReply,
	})
}

// State implements [cache.Shared].
func (s *Store) State() string { return s.breaker.State().String() }

// Outages returns the outages of Redis.
func (s *Store) Outages() upstream.Outages { return upstream.Outages{s.outage, s.writes} }

// do runs one operation within its time, if the breaker lets it, and counts its
// failure. Giving up because the flight is over says nothing about Redis.
func (s *Store) do(ctx context.Context, op func(context.Context) error) error {
	return s.doUntil(ctx, time.Now().Add(s.o.Timeout), op)
}

// doUntil runs one whose time has begun before.
func (s *Store) doUntil(ctx context.Context, due time.Time, op func(context.Context) error) error {
	_, err := s.breaker.Execute(func() (struct{}, error) {
		within, cancel := context.WithDeadline(ctx, due)
		defer cancel()
		began := time.Now()
		err := upstream.Guard(s.o.Logger, "redis", func() error { return op(within) })
		s.seconds.Observe(time.Since(began).Seconds())
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Canceled, err)
		}
		s.note(err)
		return struct{}{}, err
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		s.failed(kindOf(err))
		s.o.Logger.Debug("redis request failed", "error", err)
	}
	return err
}

// note records for the outage how an operation went. One that was given up, or never sent, says
// nothing about Redis.
func (s *Store) note(err error) {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, redis.ErrPoolTimeout):
	case err == nil, isReply(err):
		s.outage.End()
	default:
		s.outage.Failed(err)
	}
}

// noteWrite records whether Redis has carried out a write, or refused it. Silence is not judged here.
func (s *Store) noteWrite(err error) {
	if err == nil || isReply(err) {
		s.writes.Note(err)
	}
}

// isReply tells an error that the store has answered from silence. However
// unwelcome, an answer shows that the store lives and costs no caller a timeout.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
