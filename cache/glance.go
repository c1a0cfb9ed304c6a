package cache

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// glance looks for the entry of a key that memory knows nothing of where other
// replicas may have put it. That costs a third of a flight, which brings a
// goroutine and the lease with it, and is all that a replica needs that has just
// started. The caller waits as long as the shared store may take.
func (c *Cache) glance(ctx context.Context, ch *chain, q Query, origin Origin) (res Result, ok bool) {
	if ch.wake == nil || q.Policy.Keep <= 0 || !c.begin() {
		return res, false
	}
	defer c.tasks.Done()
	if !ch.lookups.beginGlance(q.Key) {
		return res, false
	}
	found := c.shared.read(context.WithoutCancel(ctx), ch.id, q.Key)
	if found != nil && q.state(&held{entry: found}, c.o.Now()) > Stale {
		found = nil // a flight's to judge
	}
	var at *held
	ch.lookups.endGlance(q.Key, func() {
		if found != nil {
			at = ch.memory.put(q.Key, found)
		}
	})
	if q.state(at, c.o.Now()) > Stale { // memory has had something else meanwhile
		return res, false
	}
	return c.arrive(ctx, ch, q, origin, landing{at: at, store: inShared}, true), true
}

// read gives the entry of a key, nil for none that can be read.
func (s *shared) read(ctx context.Context, namespace, key string) *Entry {
	ctx, span := startSpan(ctx, "redis.read")
	var fields *redis.SliceCmd
	err := s.do(ctx, func(ctx context.Context) error {
		fields = s.rdb.HMGet(ctx, entryKey(namespace, key), "m", "b")
		return fields.Err()
	})
	endSpan(span, err)
	return s.decodeFields(key, fields)
}

// lookups are the keys that are being looked up below memory. A flight serves
// what it brings before the shared store has it, and memory may have dropped
// that again: what is found by a glance beside a flight could be older, so there
// is none, and one that a flight has overtaken found nothing.
type lookups struct {
	mu      sync.Mutex
	flights map[string]bool
	glances map[string]bool // whether no flight has begun since
}

func newLookups() lookups {
	return lookups{flights: map[string]bool{}, glances: map[string]bool{}}
}

func (l *lookups) beginFlight(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flights[key] = true
	if _, beside := l.glances[key]; beside {
		l.glances[key] = false
	}
}

func (l *lookups) endFlight(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.flights, key)
}

// beginGlance tells whether the key may be glanced at: nobody else looks it up.
func (l *lookups) beginGlance(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, beside := l.glances[key]; beside || l.flights[key] {
		return false
	}
	l.glances[key] = true
	return true
}

// endGlance calls keep unless a flight has begun meanwhile. None begins before
// keep has returned.
func (l *lookups) endGlance(key string, keep func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.glances[key] {
		keep()
	}
	delete(l.glances, key)
}
