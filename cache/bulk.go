package cache

import (
	"context"
	"time"
)

// Load returns the entries of many keys: from memory, and missing ones from the shared store in one round trip.
// Keys without an entry, and keys that the shared store cannot return, are absent from the map. Entries may be of
// any age: the caller judges them by [Policy.State].
func (c *Cache) Load(ctx context.Context, keys []string) map[string]*Entry {
	ch := c.chain.Load()
	found := make(map[string]*Entry, len(keys))
	var missing []string
	for _, key := range keys {
		if at, ok := ch.memory.GetIfPresent(key); ok && !at.entry.pastExpires(c.o.Now) {
			found[key] = at.entry
		} else {
			missing = append(missing, key)
		}
	}
	if ch.subscriber == nil || len(missing) == 0 {
		return found
	}
	shared, _ := c.o.Shared.Load(ctx, ch.namespace, missing...) // the store counts errors; after one, use what was read before it
	for key, e := range shared {
		if !e.pastExpires(c.o.Now) {
			found[key] = ch.memory.put(&Query{Key: key}, e).entry
		}
	}
	return found
}

// Save stores many entries: in memory, and for the duration keep in the shared store. Newer entries there remain.
func (c *Cache) Save(ctx context.Context, entries map[string]*Entry, keep time.Duration) {
	ch := c.chain.Load()
	for key, e := range entries {
		ch.memory.put(&Query{Key: key}, e)
	}
	if ch.subscriber != nil && keep > 0 && len(entries) > 0 {
		c.o.Shared.Save(ctx, ch.namespace, entries, keep)
	}
}
