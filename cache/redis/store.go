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

// Settings are the operator's settings of a store, in the section redis.
type Settings struct {
	URL     string        `yaml:"url" flag:"redis" secret:"true" doc:"redis://, rediss:// or unix:// URL, or none. The path or ?db= is the database. Several hosts mean a Cluster, and ?master_name= means Sentinel. Hosts without a port get 6379, Sentinels too. User and password are for Redis; the parameters sentinel_username and sentinel_password are for the Sentinels. ?cluster=true makes one host a Cluster."`
	Timeout time.Duration `yaml:"timeout" must:"positive" doc:"Timeout of one round trip to Redis. A request waits for Redis for up to twice that if others wait, and once more if it joins another request, and then continues without it."`
	SealKey string        `yaml:"seal_key" secret:"true" doc:"Secret of at least 16 characters, the same on all replicas. tipcache signs entries, block hashes, leases and purges in Redis with it, and ignores unsigned ones. Empty disables signatures."`
}

// DefaultSettings returns the settings of an operator who sets none.
func DefaultSettings() Settings { return Settings{URL: "none", Timeout: 100 * time.Millisecond} }

// Options configure a Store. Zero values mean the defaults. Timeout must be less than Lease, and Lease less than
// FlightTimeout.
type Options struct {
	Settings
	Lease         time.Duration         // lifetime of a lease, unless its holder renews it; default 3 s
	FlightTimeout time.Duration         // maximum time that a living replica holds a lease: [cache.Options.FlightTimeout]; default as there
	Now           func() time.Time      // clock shared with replicas, for signatures and epochs; default time.Now
	Logger        *slog.Logger          // nil discards
	Registerer    prometheus.Registerer // nil registers no metrics
}

// WithDefaults returns o with defaults for zero values.
func (o Options) WithDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, DefaultSettings().Timeout)
	o.Lease = cmp.Or(o.Lease, 3*time.Second)
	o.FlightTimeout = cmp.Or(o.FlightTimeout, cache.Options{}.WithDefaults().FlightTimeout)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store implements [cache.Shared]. All methods send their commands by doUntil, except Subscribe, Ping, Check and Spend.
type Store struct {
	rdb      redis.UniversalClient
	o        Options
	breaker  *gobreaker.CircuitBreaker[struct{}]
	outage   *upstream.Outage // of all operations; any reply is a success
	writes   *upstream.Outage // of acquiring leases and storing entries; an error reply is a failure
	messages *upstream.Outage // of subscriptions; an error reply is a failure
	codec    *codec
	errors   [errorKinds]prometheus.Counter
	seconds  prometheus.Histogram

	cluster  bool
	hasSlots atomic.Bool // has hash slots, though the client is not a ClusterClient
	answered atomic.Bool // Redis has replied at least once

	asked atomic.Int64 // time of the newest request to Redis, in Unix nanoseconds

	pipeline pipeline
	nodes    sync.Map // address of a Cluster's node to *pipeline
	batcher  writeBatcher

	reminders  [errorKinds]rate.Sometimes // limit log lines about corrupt entries
	suppressed [errorKinds]atomic.Int64   // corrupt entries since the last line

	acquire, write, keep, spend *redis.Script
}

var _ Shared = (*Store)(nil)

// New returns a store that uses rdb, which must have ContextTimeoutEnabled and a PoolTimeout below Timeout. The caller
// closes rdb after the caches. New fails if an option is negative or the metrics cannot be registered.
func New(rdb redis.UniversalClient, o Options) (*Store, error) {
	if least := min(o.Timeout, o.Lease, o.FlightTimeout); least < 0 {
		return nil, fmt.Errorf("redis: an option is negative: %v", least)
	}
	o = o.WithDefaults()
	s := &Store{
		rdb: rdb, o: o, outage: upstream.NewOutage(o.Logger, "Redis"), writes: upstream.NewOutage(o.Logger, "writes to Redis"),
		messages: upstream.NewOutage(o.Logger, "messages of Redis"), codec: newCodec([]byte(o.SealKey)), batcher: writeBatcher{every: batchInterval, held: map[string]bool{}},
		acquire: redis.NewScript(acquireScript), write: redis.NewScript(writeScript),
		keep: redis.NewScript(keepScript), spend: redis.NewScript(spendScript),
	}
	s.breaker = newBreaker(s.outage)
	_, s.cluster = rdb.(*redis.ClusterClient)
	for kind := range s.reminders {
		s.reminders[kind].Interval = logInterval
	}
	return s, s.register(o.Registerer)
}

// register registers the metrics. A nil registerer does not export them.
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

// The breaker opens after failuresToOpen consecutive failures. After each breakerCooldown it lets one operation through
// to test Redis.
const (
	failuresToOpen  = 5
	breakerCooldown = 2 * time.Second
)

func newBreaker(outage *upstream.Outage) *gobreaker.CircuitBreaker[struct{}] {
	return upstream.NewBreaker[struct{}](upstream.BreakerOptions{
		Outage:   outage,
		Failures: failuresToOpen,
		Cooldown: breakerCooldown,
		Excluded: func(err error) bool {
			return errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrPoolTimeout) // canceled, or not sent
		},
		Answered: isAnswer,
	})
}

// probeAfter is the time without requests after which Probe reads an entry.
const probeAfter = time.Second

// Probe reads an entry if nothing else has asked Redis for probeAfter. So the breaker and the outage also notice a Redis that fails,
// or works again, while no client sends requests.
func (s *Store) Probe(ctx context.Context, namespace string) {
	if time.Since(time.Unix(0, s.asked.Load())) >= probeAfter {
		_ = s.pipe(ctx, &newRead(namespace, probeKey).command) // counted
	}
}

// probeKey is the key of the entry that Probe reads. No query has it.
const probeKey = "probe"

// State implements [cache.Shared].
func (s *Store) State() string { return s.breaker.State().String() }

// Outages returns the outages of Redis.
func (s *Store) Outages() upstream.Outages { return upstream.Outages{s.outage, s.writes, s.messages} }

// do runs an operation within Options.Timeout, if the breaker is closed, and counts a failure. A cancelation is not a
// failure. Unlike pipe, it shares no round trip with other callers.
func (s *Store) do(ctx context.Context, op func(context.Context) error) error {
	return s.doUntil(ctx, time.Now().Add(s.o.Timeout), op)
}

// doUntil is like do with a given deadline.
func (s *Store) doUntil(ctx context.Context, due time.Time, op func(context.Context) error) error {
	_, err := s.breaker.Execute(func() (struct{}, error) {
		within, cancel := context.WithDeadline(ctx, due)
		defer cancel()
		began := time.Now()
		s.asked.Store(began.UnixNano())
		err := upstream.Guard(s.o.Logger, "redis", func() error { return op(within) })
		s.seconds.Observe(time.Since(began).Seconds())
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Canceled, err)
		}
		s.record(err)
		return struct{}{}, err
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		s.reportFailure(err)
	}
	return err
}

// record records the result of an operation for the outage. Canceled and unsent ones do not count.
func (s *Store) record(err error) {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, redis.ErrPoolTimeout):
	case err == nil, isAnswer(err):
		s.outage.End()
	default:
		s.outage.Record(err)
	}
}

// recordWrite records whether Redis has executed or refused a write. Other errors do not count.
func (s *Store) recordWrite(err error) {
	if err == nil || isAnswer(err) {
		s.writes.Record(err)
	}
}

// isAnswer reports whether err is an error reply that shows that Redis works for us: any but a denied access.
func isAnswer(err error) bool { return isReply(err) && !isDenied(err) }

// isDenied reports whether Redis does not know us, or does not let us read entries. Without permission for scripts, entries can
// still be read.
func isDenied(err error) bool {
	return redis.HasErrorPrefix(err, "NOAUTH") || redis.HasErrorPrefix(err, "WRONGPASS") || errors.Is(err, errNoReads) ||
		redis.HasErrorPrefix(err, "Protocol error: unauthenticated") // a command with more than ten arguments
}

// errNoReads is a NOPERM for the command that reads entries.
var errNoReads = errors.New("redis: entries may not be read")

// isReply reports whether err is an error reply of Redis.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
