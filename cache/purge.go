package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// scanStep is about how many keys the shared store looks at in one operation of
// a purge: few enough to be within RedisTimeout and to keep nobody waiting.
const scanStep = 1000

// A Selection says which keys are meant: those that are all it says. The zero
// Selection is every key.
type Selection struct {
	Prefix   string `json:"prefix,omitempty"`   // the key begins with it
	Contains string `json:"contains,omitempty"` // the key contains it
	Path     string `json:"path,omitempty"`     // the key up to ? or @, where a segment * stands for any one
}

// Has tells whether a key is meant.
func (s Selection) Has(key string) bool {
	return strings.HasPrefix(key, s.Prefix) && strings.Contains(key, s.Contains) && (s.Path == "" || onPath(key, s.Path))
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
// Leases stay, so that nobody asks the origin twice. An answer that is being
// read from the origin meanwhile is stored when it comes: it may be as old as
// the beginning of its flight, [Options.FlightTimeout] at most. A replica that
// is cut off from the shared store does not hear of the purge.
func (c *Cache) PurgeKeys(ctx context.Context, sel Selection) (Purged, error) {
	ch := c.chain.Load()
	if ch.wake == nil {
		return Purged{Memory: ch.memory.purge(sel)}, nil
	}
	n, err := c.shared.purge(ctx, ch.id, sel)
	done := Purged{Shared: n, Memory: ch.memory.purge(sel)}
	if err == nil {
		err = c.shared.tell(ctx, ch.id, sel)
		done.Told = err == nil
	}
	if err != nil {
		return done, fmt.Errorf("cache: purge the shared store: %w", err)
	}
	return done, nil
}

// purge removes the selected entries and counts them.
func (m *memory) purge(sel Selection) (n int) {
	for key := range m.store.Keys() {
		if sel.Has(key) {
			if _, gone := m.store.Invalidate(key); gone {
				n++
			}
		}
	}
	return n
}

// purge removes the selected entries from every master of the store.
func (s *shared) purge(ctx context.Context, namespace string, sel Selection) (int, error) {
	var n atomic.Int64
	purge := func(ctx context.Context, rdb redis.UniversalClient) error {
		return s.sweep(ctx, rdb, namespace, sel, &n)
	}
	var err error
	if cluster, ok := s.rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, rdb *redis.Client) error { return purge(ctx, rdb) })
	} else {
		err = purge(ctx, s.rdb)
	}
	return int(n.Load()), err
}

// sweep goes through the keys of one server, step by step. The pattern ends as
// entries do, so leases are no part of it.
func (s *shared) sweep(ctx context.Context, rdb redis.UniversalClient, namespace string, sel Selection, n *atomic.Int64) error {
	before, after := aroundKey(namespace)
	pattern := literal(before) + sel.pattern() + literal(after)
	others := func(at string) bool { return !sel.Has(strings.TrimSuffix(strings.TrimPrefix(at, before), after)) }
	for cursor := uint64(0); ; {
		var keys []string
		err := s.do(ctx, func(ctx context.Context) (err error) {
			keys, cursor, err = rdb.Scan(ctx, cursor, pattern, scanStep).Result()
			return err
		})
		if err != nil {
			return err
		}
		if err := s.unlink(ctx, rdb, slices.DeleteFunc(keys, others), n); err != nil || cursor == 0 {
			return err
		}
	}
}

// aroundKey is what stands around a key in the store, as entryKey puts it there.
func aroundKey(namespace string) (before, after string) {
	const end = "}"
	return strings.TrimSuffix(entryKey(namespace, ""), end), end
}

// unlink removes keys one by one, in one round trip: in a cluster they are in
// different slots.
func (s *shared) unlink(ctx context.Context, rdb redis.UniversalClient, keys []string, n *atomic.Int64) error {
	if len(keys) == 0 {
		return ctx.Err()
	}
	return s.do(ctx, func(ctx context.Context) error {
		replies, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range keys {
				p.Unlink(ctx, key)
			}
			return nil
		})
		for _, reply := range replies {
			n.Add(reply.(*redis.IntCmd).Val())
		}
		return err
	})
}

// pattern matches at least the selected keys, in the language of SCAN.
func (s Selection) pattern() string {
	switch {
	case s.Path != "":
		return strings.ReplaceAll(literal(s.Path), `\*`, "*") + "*"
	case s.Prefix != "":
		return literal(s.Prefix) + "*"
	default:
		return "*" + literal(s.Contains) + "*"
	}
}

// literal is a pattern that matches the text itself.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// purgeMark begins a message that tells replicas to purge.
const purgeMark = '!'

// tell has all replicas purge their memories, this one once more.
func (s *shared) tell(ctx context.Context, namespace string, sel Selection) error {
	message, _ := json.Marshal(sel) // strings always encode
	return s.do(ctx, func(ctx context.Context) error {
		return s.rdb.Publish(ctx, channelOf(namespace), string(purgeMark)+string(message)).Err()
	})
}

// readSelection reads what tell has sent.
func readSelection(message string) (Selection, error) {
	var sel *Selection
	if err := json.Unmarshal([]byte(message), &sel); err != nil || sel == nil {
		return Selection{}, errors.New("cache: not a selection")
	}
	return *sel, nil
}
