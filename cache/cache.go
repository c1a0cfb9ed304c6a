package cache

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/singleflight"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/upstream/account"
)

// Options configure a cache. The zero value of each field means its default. The shared store's timeouts, OriginTimeout
// and Patience must be shorter than FlightTimeout; New checks only OriginTimeout.
type Options struct {
	MemoryBytes   int64                 // maximum size of the memory store; default 256 MiB
	Account       *account.Account      // reservations of other components, which reduce the memory for entries; nil creates an account of half of MemoryBytes. Only one cache may use it
	Shared        Shared                // store that replicas share; nil for none. The caller closes it, after the cache
	FlightTimeout time.Duration         // maximum duration of a flight, including waits for other replicas and the origin's queue; default 10 s
	OriginTimeout time.Duration         // last part of FlightTimeout, kept for reading the origin: waits for other replicas end before it; default half
	Patience      time.Duration         // maximum wait for the origin while a stale entry could be served, see [Patience]; at least 1 s if the entry is kept only for errors
	MaxWaiters    int                   // maximum number of callers waiting in flights; more are refused; default 10000. While more than half wait, a client may have a twentieth
	MaxBackground int                   // maximum number of background flights and encodings; more are skipped; default 4096
	EncodeAtOnce  bool                  // makes callers wait for encodings that would otherwise be made in the background
	Now           func() time.Time      // clock to judge entries by, shared with replicas and nodes; waits use the process clock; default time.Now
	Logger        *slog.Logger          // nil discards
	Registerer    prometheus.Registerer // nil disables metrics
}

func (o Options) validate() error {
	least := min(o.MemoryBytes, int64(o.FlightTimeout), int64(o.OriginTimeout), int64(o.Patience), int64(o.MaxWaiters), int64(o.MaxBackground))
	if least < 0 {
		return fmt.Errorf("cache: an option is negative: %d", least)
	}
	if o = o.WithDefaults(); o.OriginTimeout >= o.FlightTimeout {
		return fmt.Errorf("cache: OriginTimeout %v is not shorter than FlightTimeout %v", o.OriginTimeout, o.FlightTimeout)
	}
	return nil
}

// WithDefaults replaces zero values by their defaults.
func (o Options) WithDefaults() Options {
	o.MemoryBytes = cmp.Or(o.MemoryBytes, 256<<20)
	o.FlightTimeout = cmp.Or(o.FlightTimeout, 10*time.Second)
	o.OriginTimeout = cmp.Or(o.OriginTimeout, o.FlightTimeout/2)
	o.MaxWaiters = cmp.Or(o.MaxWaiters, 10_000)
	o.MaxBackground = cmp.Or(o.MaxBackground, 4096)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Registerer = cmp.Or[prometheus.Registerer](o.Registerer, prometheus.NewRegistry())
	if o.Account == nil {
		o.Account = account.New(o.MemoryBytes/2, nil)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Cache is safe for concurrent use. Close ends its goroutines.
type Cache struct {
	o      Options
	counts counts

	encoders *codings.Encoders
	metrics  *prometheus.Registry // registered until Close

	space atomic.Pointer[space]
	steps atomic.Int64 // steps of memory that the account has reserved

	leases     *gobreaker.CircuitBreaker[struct{}]
	waiters    *account.Part // counts the callers waiting in flights, instead of bytes
	background atomic.Int64  // flights without a waiting caller, and encodings

	life  context.Context //nolint:containedctx // ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup // flights, reads and writes of the shared store, encodings and subscriptions

	mu sync.Mutex // guards the replacement of space, and the end of life
}

// New returns a cache. It fails if an option is negative or its metrics cannot be registered.
func New(o Options) (*Cache, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	c := &Cache{o: o, counts: counts{leaseSeconds: newLeaseSeconds()}, encoders: codings.NewEncoders()}
	c.leases = newLeaseBreaker(o.Logger)
	var unlimited *account.Account // the part alone limits
	c.waiters = unlimited.Part(account.Requests, int64(o.MaxWaiters), max(1, int64(o.MaxWaiters)/20))
	c.life, c.end = context.WithCancel(context.Background())
	c.space.Store(c.newSpace(""))
	o.Account.Follow(c.makeRoom)
	if err := c.register(); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// Close cancels all flights and waits for them and their writes to the shared store. After that, only memory
// serves. The caller closes the shared store.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.tasks.Wait()
	c.o.Registerer.Unregister(c.metrics)
	return nil
}

// begin registers a task that Close waits for; the task must call tasks.Done. It returns false after Close.
func (c *Cache) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.tasks.Add(1)
	return true
}

// A space holds everything cached of one namespace. Another namespace gets another one, which old flights cannot affect.
type space struct {
	namespace  string // "" while unknown
	memory     memory
	flights    singleflight.Group
	keys       *keys
	ahead      *ahead.Keys[*request]
	subscriber *subscriber        // nil without a shared store or namespace
	leave      context.CancelFunc // ends the subscription
}

// shares reports whether the answer to q is shared with other replicas.
func (sp *space) shares(q *Query) bool { return sp.subscriber != nil && q.Policy.Keep > 0 }

// Namespace returns the namespace, "" before SetNamespace.
func (c *Cache) Namespace() string { return c.space.Load().namespace }

// Entries returns the number of entries in memory.
func (c *Cache) Entries() int { return c.space.Load().memory.EstimatedSize() }

// SharedState returns the state of the shared store: "closed" while it works, "open" while it is not used after
// failures, "half-open" while it is tried again, or "off" if there is none or the namespace is unknown.
func (c *Cache) SharedState() string {
	if c.space.Load().subscriber == nil {
		return "off"
	}
	return c.o.Shared.State()
}

// SetNamespace sets the namespace. The shared store is not used before, except by Load and Save. A different
// namespace empties memory except for their entries, so that entries of one chain are never served for another.
func (c *Cache) SetNamespace(namespace string) {
	c.mu.Lock()
	old := c.space.Load()
	if old.namespace == namespace || c.life.Err() != nil {
		c.mu.Unlock()
		return
	}
	old.leave()
	sp := c.newSpace(namespace)
	c.space.Store(sp)
	c.mu.Unlock() // flights need it, and copying takes long
	for key, at := range old.memory.All() {
		if at.saved {
			sp.memory.SetIfAbsent(key, at) // Save may have stored a newer one in sp
		}
	}
}

// newSpace returns an empty space, subscribed to other replicas if there are any. The caller holds c.mu, except in New.
func (c *Cache) newSpace(namespace string) *space {
	ctx, leave := context.WithCancel(c.life)
	sp := &space{namespace: namespace, memory: newMemory(c.capacity(), c.o.MemoryBytes/confinedShare, &c.counts), keys: newKeys(c.o.MemoryBytes / 32), leave: leave}
	sp.ahead = ahead.New(sp.keys)
	if namespace != "" && c.o.Shared != nil {
		sp.subscriber = &subscriber{sp.memory, sp.keys}
		c.tasks.Go(func() { c.o.Shared.Subscribe(ctx, namespace, sp.subscriber) })
	}
	return sp
}
