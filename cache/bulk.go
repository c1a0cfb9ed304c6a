package cache

import (
	"context"
	"time"
)

// Load gives the entries of many keys at once: from memory, and what is not there
// from the shared store in one round trip. A key without an entry is absent from
// the map; a shared store that is not well has none. The entries may be of any
// age: the caller judges them by [Policy.State].
func (c *Cache) Load(ctx context.Context, keys []string) map[string]*Entry {
	ch := c.chain.Load()
	found := make(map[string]*Entry, len(keys))
	var missing []string
	for _, key := range keys {
		if at, ok := ch.memory.GetIfPresent(key); ok && !at.entry.expired(c.o.Now) {
			found[key] = at.entry
		} else {
			missing = append(missing, key)
		}
	}
	if ch.replicas == nil || len(missing) == 0 {
		return found
	}
	shared, _ := c.o.Shared.Load(ctx, ch.namespace, missing...) // counted there; what has come is used all the same
	for key, e := range shared {
		if !e.expired(c.o.Now) {
			found[key] = ch.memory.put(&Query{Key: key}, e).entry
		}
	}
	return found
}

// Save keeps many entries at once, in memory and for as long as keep in the
// shared store. What is newer there stays.
func (c *Cache) Save(ctx context.Context, entries map[string]*Entry, keep time.Duration) {
	ch := c.chain.Load()
	for key, e := range entries {
		ch.memory.put(&Query{Key: key}, e)
	}
	if ch.replicas != nil && keep > 0 && len(entries) > 0 {
		c.o.Shared.Save(ctx, ch.namespace, entries, keep)
	}
}
