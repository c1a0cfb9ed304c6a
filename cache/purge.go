package cache

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// Selection selects the keys that satisfy all of its fields. The zero Selection selects every key.
type Selection struct {
	Prefix   string `json:"prefix,omitempty"`   // the key begins with it
	Contains string `json:"contains,omitempty"` // the key contains it
	Path     string `json:"path,omitempty"`     // the key up to ? or @; a segment * matches any one
}

// Composed is the key prefix of entries composed of others.
const Composed = "composed/"

// Has reports whether a key is selected. Composed entries always are.
func (s Selection) Has(key string) bool {
	return strings.HasPrefix(key, Composed) || strings.HasPrefix(key, s.Prefix) && strings.Contains(key, s.Contains) && (s.Path == "" || onPath(key, s.Path))
}

func onPath(key, pattern string) bool {
	if end := strings.IndexAny(key, "?@"); end >= 0 {
		key = key[:end]
	}
	on, _ := path.Match(pattern, key) // malformed patterns match nothing
	return on
}

// Purged is the result of a purge.
type Purged struct {
	Memory   int  // entries removed from this process
	Shared   int  // entries removed from the shared store
	Notified bool // the other replicas were notified; false without a shared store, and while the namespace is unknown
}

// PurgeKeys removes the selected entries from the shared store, from memory, and from the memories of other
// replicas, in this order, so that no memory is filled again with purged entries. If the shared store fails or
// ctx ends, PurgeKeys still purges this memory, does not notify the other replicas, and returns what was removed.
//
// Leases remain, so that the origin is not read twice. An answer being read from the origin meanwhile is stored
// and may be as old as its flight, at most [Options.FlightTimeout]. A replica without a connection to the shared
// store misses the purge, and so does one with another namespace, which may have entries of Save in memory.
func (c *Cache) PurgeKeys(ctx context.Context, sel Selection) (Purged, error) {
	sp := c.space.Load()
	if c.o.Shared == nil {
		return Purged{Memory: sp.memory.purge(sel)}, nil
	}
	namespaces, purgeMemory := []string{savedNamespace}, sp.memory.purge
	if sp.subscriber != nil {
		namespaces, purgeMemory = append(namespaces, sp.namespace), sp.subscriber.Purge
	}
	sp.keys.awaitWrites(ctx, sel)
	n, err := c.o.Shared.Purge(ctx, sel, namespaces...)
	done := Purged{Shared: n, Memory: purgeMemory(sel)}
	if err == nil && sp.subscriber != nil {
		err = c.o.Shared.AnnouncePurge(ctx, sp.namespace, sel)
		done.Notified = err == nil
	}
	if err != nil {
		return done, fmt.Errorf("cache: purge the shared store: %w", err)
	}
	return done, nil
}
