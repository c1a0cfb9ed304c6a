package cache

import (
	"context"
	"time"
)

// savedNamespace is the namespace of Load and Save in the shared store. No chain has it.
const savedNamespace = ""

// Load returns the entries of many keys that Save has stored: from memory, and missing ones from the shared store in one
// round trip. Keys without an entry, and keys that the shared store cannot return, are absent from the map. Entries may
// be of any age: the caller judges them by their ReadAt. Their Expires is ignored.
func (c *Cache) Load(ctx context.Context, keys []string) map[string]*Entry {
	sp := c.space.Load()
	found := make(map[string]*Entry, len(keys))
	var missing []string
	for _, key := range keys {
		if at, ok := sp.memory.GetIfPresent(key); ok {
			found[key] = at.entry
		} else {
			missing = append(missing, key)
		}
	}
	if c.o.Shared == nil || len(missing) == 0 {
		return found
	}
	shared, _ := c.o.Shared.Load(ctx, savedNamespace, missing...) // the store counts errors; after one, use what was read before it
	for key, e := range shared {
		at, _ := sp.memory.SetIfAbsent(key, &slot{entry: e, saved: true}) // Save may have stored a newer one meanwhile
		found[key] = at.entry
	}
	return found
}

// Save stores many entries that belong to no chain, so that SetNamespace keeps them: in memory, and for the duration keep in
// the shared store. They replace the entries there even if those seem newer, because another replica's clock may be ahead.
func (c *Cache) Save(ctx context.Context, entries map[string]*Entry, keep time.Duration) {
	sp := c.space.Load()
	for key, e := range entries {
		sp.memory.Set(key, &slot{entry: e, saved: true})
	}
	if c.o.Shared != nil && keep > 0 && len(entries) > 0 {
		c.o.Shared.Save(ctx, savedNamespace, entries, keep)
	}
}
