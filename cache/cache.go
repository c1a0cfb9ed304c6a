package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// retryAfter is how long a key rests after the origin failed for it, so that a
// dead origin is not asked by every hit on a stale entry.
const retryAfter = time.Second

// maxFlights bounds how many flights of others a caller joins, one after the
// other, in the hope of an answer that is new enough for it.
const maxFlights = 8

// Cache is safe for concurrent use. Close ends what it has under way.
type Cache struct {
	o      Options
	shared *shared // nil without a shared store
	counts counts

	encoders *encoders
	unlist   func() // takes the metrics off the registerer

	chain atomic.Pointer[chain]

	waiting    atomic.Int64 // callers waiting in flights
	background atomic.Int64 // flights that nobody waits for

	life  context.Context //nolint:containedctx // the cache's own: ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup // flights and listeners

	mu     sync.Mutex // guards the replacement of chain, and closed
	closed bool
}

// chain is all that is kept of one chain. Another chain gets another one, so
// that what is still in flight for the old chain cannot be taken for the new.
type chain struct {
	id      string // "" = not known yet
	memory  *memory
	flights singleflight.Group
	lookups lookups // flights and glances
	wake    *wake
	leave   context.CancelFunc // ends the listener
}

// New returns a cache. It fails if an option is negative or its metrics cannot
// be registered.
func New(o Options) (*Cache, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &Cache{o: o.withDefaults(), counts: counts{leaseSeconds: newLeaseSeconds()}, encoders: newEncoders()}
	c.life, c.end = context.WithCancel(context.Background())
	if o.Redis != nil {
		c.shared = newShared(&c.o, &c.counts)
	}
	c.chain.Store(c.newChain(""))
	if err := c.register(); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// Get answers q, from the nearest place that has an answer new enough, and
// asks origin if there is none. A caller waits no longer than its ctx, but for
// a look into the shared store, of RedisTimeout at the most; the flight it
// started goes on without it. When the origin fails, or there is no time or room
// to wait for it, an entry that q.Policy keeps for errors is served with the
// failure in Result.Err; without such an entry the failure is the error: the
// origin's own, ctx's or [ErrOverloaded].
//
// An entry may be below q.MinHeight, or older than q.Policy or q.Since want it,
// only if the origin has given it since Get was called: it has nothing better then.
func (c *Cache) Get(ctx context.Context, q Query, origin Origin) (Result, error) {
	ch := c.chain.Load()
	at := ch.memory.get(q.Key)
	switch q.state(at, c.o.Now()) {
	case Fresh:
		c.counts.served(Hit, inMemory)
		return Result{Entry: at.entry, Outcome: Hit, Store: inMemory}, nil
	case Stale:
		c.revalidate(ctx, ch, at, q, origin)
		c.counts.served(StaleHit, inMemory)
		return Result{Entry: at.entry, Outcome: StaleHit, Store: inMemory}, nil
	case StaleIfError:
		// Once the origin has failed nobody waits for it until it is well:
		// a stalled one would hold up every caller.
		if err := at.trouble(); err != nil {
			c.revalidate(ctx, ch, at, q, origin)
			c.counts.served(StaleError, inMemory)
			return Result{Entry: at.entry, Outcome: StaleError, Store: inMemory, Err: err}, nil //nolint:nilerr // the entry is the answer
		}
	}
	res, err := c.wait(ctx, ch, q, origin, at == nil)
	c.counts.served(res.Outcome, res.Store)
	return res, err
}

// wait answers q from a flight; for a key that memory does not have (cold), a
// glance at the shared store may do.
func (c *Cache) wait(ctx context.Context, ch *chain, q Query, origin Origin, cold bool) (Result, error) {
	defer c.waiting.Add(-1)
	if c.waiting.Add(1) > int64(c.o.MaxWaiters) {
		return c.standIn(ch, &q, landing{}, ErrOverloaded)
	}
	if cold {
		if res, ok := c.glance(ctx, ch, q, origin); ok {
			return res, nil
		}
	}
	for try := range maxFlights {
		l, own, err := c.join(ctx, ch, q, origin)
		if err != nil {
			return c.standIn(ch, &q, l, err)
		}
		// A flight that another caller began may have brought too low a height
		// or too old a reading for this one. The next begins after that: if it
		// has asked the origin, then as late as this caller's own could have.
		if own || q.state(l.at, c.o.Now()) <= Stale || try > 0 && l.store == fromOrigin {
			return c.arrive(ctx, ch, q, origin, l, own), nil
		}
	}
	return c.standIn(ch, &q, landing{}, ErrOverloaded)
}

// join starts the flight of the key or joins the one under way, and waits for
// it to land, or for Patience if there is something else to give. own tells a
// caller whose flight it was.
func (c *Cache) join(ctx context.Context, ch *chain, q Query, origin Origin) (l landing, own bool, err error) {
	started := false
	landed := ch.flights.DoChan(q.Key, func() (any, error) {
		started = true
		return c.fly(ctx, ch, q, origin, Stale)
	})
	patience := time.NewTimer(c.o.Patience)
	defer patience.Stop()
	for {
		select {
		case r := <-landed:
			return r.Val.(landing), started, r.Err
		case <-patience.C:
			if at := ch.memory.get(q.Key); q.state(at, c.o.Now()) == StaleIfError {
				at.fail(c.o.Now(), errSlow)
				return landing{at: at, store: inMemory, forward: "stale"}, false, errSlow
			}
		case <-ctx.Done():
			return landing{}, false, ctx.Err()
		}
	}
}

// arrive makes a result of a landing.
func (c *Cache) arrive(ctx context.Context, ch *chain, q Query, origin Origin, l landing, own bool) Result {
	res := Result{Entry: l.at.entry, Outcome: Miss, Store: l.store, Forward: l.forward, Collapsed: !own}
	if l.store == fromOrigin {
		if !own {
			c.counts.collapsed.Add(1)
		}
		return res
	}
	res.Outcome = Hit
	if q.state(l.at, c.o.Now()) != Fresh {
		res.Outcome = StaleHit
		c.revalidate(ctx, ch, l.at, q, origin)
	}
	return res
}

// standIn answers q after a failure, from what the flight had at hand or memory
// has by now.
func (c *Cache) standIn(ch *chain, q *Query, l landing, failure error) (Result, error) {
	at, store := l.at, l.store
	if at == nil {
		at, store = ch.memory.get(q.Key), inMemory
	}
	if q.state(at, c.o.Now()) > StaleIfError {
		return Result{}, failure
	}
	return Result{Entry: at.entry, Outcome: StaleError, Store: store, Forward: l.forward, Err: failure}, nil
}

// revalidate has a stale entry read anew by a flight in the background, unless
// that is under way, failed a moment ago, or too many are under way.
func (c *Cache) revalidate(ctx context.Context, ch *chain, at *held, q Query, origin Origin) {
	if at.renewing.Load() || at.resting(c.o.Now()) || !at.renewing.CompareAndSwap(false, true) {
		return
	}
	if c.background.Add(1) > int64(c.o.MaxBackground) || !c.begin() {
		c.background.Add(-1)
		c.counts.skipped.Add(1)
		at.renewing.Store(false)
		return
	}
	go func() {
		defer c.tasks.Done()
		defer c.background.Add(-1)
		defer at.renewing.Store(false)
		landed := ch.flights.DoChan(q.Key, func() (any, error) {
			return c.fly(inBackground(ctx), ch, q, origin, Fresh)
		})
		select {
		case <-landed:
		case <-c.life.Done():
		}
	}()
}

// SetNamespace names the chain that is cached. Until it has been called with a
// chain's id the shared store is not used, and with another id than before
// memory starts empty: nothing of one chain is served as another's.
func (c *Cache) SetNamespace(chainID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.chain.Load()
	if old.id == chainID || c.closed {
		return
	}
	old.leave()
	c.chain.Store(c.newChain(chainID))
}

// newChain returns an empty chain, with a listener if replicas share it. The
// caller holds c.mu, or has not shared c yet.
func (c *Cache) newChain(id string) *chain {
	ch := &chain{id: id, memory: newMemory(c.o.MemoryBytes, &c.counts), lookups: newLookups(), leave: func() {}}
	if id != "" && c.shared != nil {
		ctx, cancel := context.WithCancel(c.life)
		ch.wake, ch.leave = newWake(ch.memory), cancel
		c.tasks.Go(func() { ch.wake.listen(ctx, c.o.Redis, channelOf(id)) })
	}
	return ch
}

// Purge empties memory. The shared store keeps what it has; PurgeKeys does not
// spare it.
func (c *Cache) Purge() { c.chain.Load().memory.purge(Selection{}) }

// Close cancels the flights under way and waits for them. From then on only
// memory answers. The Redis client is the caller's to close.
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
