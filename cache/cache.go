package cache

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/singleflight"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/cache/pending"
)

// Cache is safe for concurrent use. Close ends what it has under way.
type Cache struct {
	o      Options
	counts counts

	encoders *codings.Encoders
	unlist   func() // takes the metrics off the registerer

	chain    atomic.Pointer[chain]
	reserved atomic.Int64 // bytes of the memory bound that others hold

	leases     *gobreaker.CircuitBreaker[struct{}]
	latencies  [kindsOfReads]latency
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
	for i := range c.latencies {
		c.latencies[i].mean.Store(int64(defaultPatience / 8)) // until it is known better
	}
	c.leases = newLeaseBreaker(o.Logger)
	c.life, c.end = context.WithCancel(context.Background())
	c.chain.Store(c.newChain(""))
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
	c.unlist()
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
	pending   *pending.Keys
	ahead     ahead.Keys[request]
	waiters   *waiters           // nil: no shared store, or no namespace to use it with
	warmed    chan struct{}      // closed once nothing more is taken over from other replicas
	leave     context.CancelFunc // ends the subscription
}

// shares tells whether the answer to q is shared with other replicas.
func (ch *chain) shares(q *Query) bool { return ch.waiters != nil && q.Policy.Keep > 0 }

// Namespace is what SetNamespace has set, "" until then.
func (c *Cache) Namespace() string { return c.chain.Load().namespace }

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
	ch := &chain{namespace: namespace, memory: newMemory(c.room(c.reserved.Load()), &c.counts), pending: pending.New(), warmed: make(chan struct{}), leave: func() {}}
	if namespace == "" || c.o.Shared == nil {
		close(ch.warmed)
	} else {
		ctx, cancel := context.WithCancel(c.life)
		ch.waiters, ch.leave = &waiters{memory: ch.memory, renewals: newRenewals(c.o.MemoryBytes / renewalsShare), byKey: map[string]chan bool{}}, cancel
		c.tasks.Go(func() { c.o.Shared.Subscribe(ctx, namespace, ch.waiters) })
		c.tasks.Go(func() {
			c.warm(ctx, ch)
			c.noteHot(ctx, ch)
		})
	}
	return ch
}
