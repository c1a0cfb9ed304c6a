package cache

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/cache/codings"
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
	background atomic.Int64 // flights that nobody waits for

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
