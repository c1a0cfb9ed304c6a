package cache

import (
	"context"

	"golang.org/x/sync/singleflight"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/cache/pending"
)

// chain is all that is kept of one namespace. Another namespace gets another
// one, so that what is still in flight for the old cannot be taken for the new.
type chain struct {
	namespace string // "" = not known yet
	memory    *memory
	flights   singleflight.Group
	pending   *pending.Keys
	ahead     ahead.Keys[asked]
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
		ch.waiters, ch.leave = &waiters{memory: ch.memory, byKey: map[string]chan bool{}}, cancel
		c.tasks.Go(func() { c.o.Shared.Subscribe(ctx, namespace, ch.waiters) })
		c.tasks.Go(func() {
			c.warm(ctx, ch)
			c.noteHot(ctx, ch)
		})
	}
	return ch
}
