package cache

import (
	"context"
	"fmt"
	"strings"
)

// A Selection says which keys are meant: the keys that are all it says. The zero
// Selection is every key.
type Selection struct {
	Prefix   string `json:"prefix,omitempty"`   // the key begins with it
	Contains string `json:"contains,omitempty"` // the key contains it
	Path     string `json:"path,omitempty"`     // the key up to ? or @, where a segment * stands for any one
}

// Composed begins the keys of answers that are made of others.
const Composed = "composed/"

// Has tells whether a key is meant. An answer that is made of others goes with any of them.
func (s Selection) Has(key string) bool {
	return strings.HasPrefix(key, Composed) || strings.HasPrefix(key, s.Prefix) && strings.Contains(key, s.Contains) && (s.Path == "" || onPath(key, s.Path))
}

// onPath compares segment by segment.
func onPath(key, path string) bool {
	if end := strings.IndexAny(key, "?@"); end >= 0 {
		key = key[:end]
	}
	have, want := strings.Split(key, "/"), strings.Split(path, "/")
	if len(have) != len(want) {
		return false
	}
	for i := range want {
		if want[i] != "*" && want[i] != have[i] {
			return false
		}
	}
	return true
}

// Purged is what a purge removed.
type Purged struct {
	Memory int  // entries of this process
	Shared int  // entries of the shared store
	Told   bool // the other replicas were told to purge their memories; false without a shared store
}

// PurgeKeys removes the entries of the selected keys from the shared store, from
// memory, and from the memories of the other replicas, in this order, so that no
// memory is filled again from what is about to go. It stops at the first failure
// of the shared store or with ctx, and says what was removed until then.
//
// Leases stay, so that the origin is not asked twice. An answer that is being
// read from the origin meanwhile is stored when it comes: it may be as old as
// the beginning of its flight, [Options.FlightTimeout] at most. A replica that
// is cut off from the shared store does not hear of the purge.
func (c *Cache) PurgeKeys(ctx context.Context, sel Selection) (Purged, error) {
	ch := c.chain.Load()
	if ch.replicas == nil {
		return Purged{Memory: ch.memory.purge(sel)}, nil
	}
	ch.pending.AwaitWrites(ctx, sel.Has)
	n, err := c.o.Shared.Purge(ctx, ch.namespace, sel)
	done := Purged{Shared: n, Memory: ch.replicas.purge(sel)}
	if err == nil {
		err = c.o.Shared.AnnouncePurge(ctx, ch.namespace, sel)
		done.Told = err == nil
	}
	if err != nil {
		return done, fmt.Errorf("cache: purge the shared store: %w", err)
	}
	return done, nil
}
