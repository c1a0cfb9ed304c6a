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
	"github.com/tipcache/tipcache/cache/pending"
	"github.com/tipcache/tipcache/upstream/account"
)

// Options of a cache. The zero value of each field means its default. The times
// nest: those of the shared store, OriginTimeout and Patience < FlightTimeout.
type Options struct {
	MemoryBytes   int64                 // bound of the memory store; 256 MiB
	Account       *account.Account      // of what others hold in place of entries; nil: one of half of MemoryBytes. A cache follows it alone
	Shared        Shared                // the store that replicas share, nil = none. The caller closes it, after the cache
	FlightTimeout time.Duration         // longest life of a flight: other replicas, the origin's queue and the origin together; 10 s
	OriginTimeout time.Duration         // what a flight leaves of that for the origin when it waits for other replicas; half of FlightTimeout
	Patience      time.Duration         // longest wait for the origin where a stale entry could be given; as [Patience] says. Where one kept for errors could it is 1 s
	MaxWaiters    int                   // callers waiting in flights at once, more are refused; 10000
	HotInterval   time.Duration         // how often replicas are told of the keys used most, for replicas that start; 30 s
	MaxBackground int                   // flights in the background at once, more are skipped; 4096
	Taken         func(Taken)           // is told of each entry that is new to this replica, for a query with Audit, and must not wait; nil = no function is
	EncodeAtOnce  bool                  // have callers wait for the codings that are made in the background otherwise
	Now           func() time.Time      // the clock that entries are judged by: theirs, which replicas and nodes have in common. Waits are measured by the process's own, as timers are; time.Now
	Logger        *slog.Logger          // nil = discard
	Registerer    prometheus.Registerer // nil = no metrics
}

func (o Options) validate() error {
	least := min(o.MemoryBytes, int64(o.FlightTimeout), int64(o.OriginTimeout), int64(o.Patience), int64(o.HotInterval), int64(o.MaxWaiters), int64(o.MaxBackground))
	if least < 0 {
		return fmt.Errorf("cache: an option is negative: %d", least)
	}
	if o = o.WithDefaults(); o.OriginTimeout >= o.FlightTimeout {
		return fmt.Errorf("cache: OriginTimeout %v is not shorter than FlightTimeout %v", o.OriginTimeout, o.FlightTimeout)
	}
	return nil
}

// WithDefaults fills in what was left zero.
func (o Options) WithDefaults() Options {
	o.MemoryBytes = cmp.Or(o.MemoryBytes, 256<<20)
	o.FlightTimeout = cmp.Or(o.FlightTimeout, 10*time.Second)
	o.OriginTimeout = cmp.Or(o.OriginTimeout, o.FlightTimeout/2)
	o.HotInterval = cmp.Or(o.HotInterval, 30*time.Second)
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

// Cache is safe for concurrent use. Close ends what it has under way.
type Cache struct {
	o      Options
	counts counts

	encoders *codings.Encoders
	metrics  *prometheus.Registry // on the registerer until Close

	chain atomic.Pointer[chain]
	steps atomic.Int64 // of the memory bound that the account holds

	leases     *gobreaker.CircuitBreaker[struct{}]
	reads      latency
	waiting    atomic.Int64 // callers waiting in flights
	background atomic.Int64 // flights that no caller waits for

	life  context.Context //nolint:containedctx // the cache's own: ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup // flights, writes and subscriptions

	mu     sync.Mutex // guards the replacement of chain, and closed
	closed bool
}

// New returns a cache. It fails if an option is negative or its metrics cannot
// be registered.
func New(o Options) (*Cache, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	c := &Cache{o: o, counts: counts{leaseSeconds: newLeaseSeconds()}, encoders: codings.NewEncoders()}
	c.leases = newLeaseBreaker(o.Logger)
	c.life, c.end = context.WithCancel(context.Background())
	c.chain.Store(c.newChain(""))
	o.Account.Follow(c.makeRoom)
	if err := c.register(); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// Close cancels the flights under way and waits for them and for what they write
// to the shared store. From then on only memory answers. The shared store is the
// caller's to close.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	c.tasks.Wait()
	c.o.Registerer.Unregister(c.metrics)
	return nil
}

// begin admits a task that Close has to wait for; the task calls tasks.Done.
func (c *Cache) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.tasks.Add(1)
	return true
}

// chain is all that is kept of one namespace. Another namespace gets another
// one, so that what is still in flight for the old cannot be taken for the new.
type chain struct {
	namespace string // "" = not known yet
	memory    *memory
	flights   singleflight.Group
	pending   pending.Keys
	ahead     ahead.Keys[request]
	replicas  *subscriber        // nil: no shared store, or no namespace to use it with
	warmed    chan struct{}      // closed once nothing more is taken over from other replicas
	leave     context.CancelFunc // ends the subscription
}

// shares tells whether the answer to q is shared with other replicas.
func (ch *chain) shares(q *Query) bool { return ch.replicas != nil && q.Policy.Keep > 0 }

// Namespace is what SetNamespace has set, "" until then.
func (c *Cache) Namespace() string { return c.chain.Load().namespace }

// Entries returns the number of entries in memory.
func (c *Cache) Entries() int { return c.chain.Load().memory.EstimatedSize() }

// SharedState says how the shared store is: "closed" while it is well, "open"
// while it is left alone after failures, "half-open" while it is being tried
// again, "off" when there is none or the chain has no name yet.
func (c *Cache) SharedState() string {
	if c.chain.Load().replicas == nil {
		return "off"
	}
	return c.o.Shared.State()
}

// SetNamespace names the chain that is cached. Until it has been called the
// shared store is not used, and with another namespace than before memory starts
// empty: nothing of one chain is served as another's.
func (c *Cache) SetNamespace(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.chain.Load()
	if old.namespace == namespace || c.closed {
		return
	}
	old.leave()
	c.chain.Store(c.newChain(namespace))
}

// newChain returns an empty chain, with a subscription if replicas share it. The
// caller holds c.mu, or has not shared c yet.
func (c *Cache) newChain(namespace string) *chain {
	ch := &chain{namespace: namespace, memory: newMemory(c.capacity(), c.o.MemoryBytes/confinedShare, &c.counts), warmed: make(chan struct{}), leave: func() {}}
	if namespace == "" || c.o.Shared == nil {
		close(ch.warmed)
	} else {
		ctx, cancel := context.WithCancel(c.life)
		ch.replicas, ch.leave = newSubscriber(ch.memory, c.o.MemoryBytes), cancel
		c.tasks.Go(func() { c.o.Shared.Subscribe(ctx, namespace, ch.replicas) })
		c.tasks.Go(func() {
			c.warm(ctx, ch)
			c.noteHot(ctx, ch)
		})
	}
	return ch
}
