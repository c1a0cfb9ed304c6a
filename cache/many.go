package cache

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
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
		if at := ch.memory.get(key); at != nil && !at.entry.expired(c.o.Now()) {
			found[key] = at.entry
		} else {
			missing = append(missing, key)
		}
	}
	if ch.wake == nil || len(missing) == 0 {
		return found
	}
	for key, e := range c.shared.load(ctx, ch.id, missing) {
		if !e.expired(c.o.Now()) {
			found[key] = ch.memory.put(key, e).entry
		}
	}
	return found
}

// Save keeps many entries at once, in memory and for as long as keep in the
// shared store. What is newer there stays.
func (c *Cache) Save(ctx context.Context, entries map[string]*Entry, keep time.Duration) {
	ch := c.chain.Load()
	for key, e := range entries {
		ch.memory.put(key, e)
	}
	if ch.wake != nil && keep > 0 && len(entries) > 0 {
		c.shared.save(ctx, ch.id, entries, keep)
	}
}

func (s *shared) load(ctx context.Context, namespace string, keys []string) map[string]*Entry {
	found := make(map[string]*Entry, len(keys))
	fields := make([]*redis.SliceCmd, len(keys))
	_ = s.do(ctx, func(ctx context.Context) error { // counted; what has come is used all the same
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range keys {
				fields[i] = p.HMGet(ctx, entryKey(namespace, key), "m", "b")
			}
			return nil
		})
		return err
	})
	for i, key := range keys {
		if e := s.decodeFields(key, fields[i]); e != nil {
			found[key] = e
		}
	}
	return found
}

// decodeFields gives nil for what is absent or cannot be read.
func (s *shared) decodeFields(key string, fields *redis.SliceCmd) *Entry {
	if fields == nil || len(fields.Val()) != 2 {
		return nil // the breaker is open, or the key holds something else
	}
	m, ok := fields.Val()[0].(string)
	if !ok {
		return nil
	}
	b, _ := fields.Val()[1].(string)
	e, err := s.codec.decode([]byte(m), []byte(b), nil)
	if err != nil {
		s.counts.trouble(corrupt)
		s.log.Warn("corrupt entry in the shared store", "key", key, "err", err)
	}
	return e
}

// save sends the whole script with each entry: a pipeline has no second try with
// the script's text when the store has forgotten it.
func (s *shared) save(ctx context.Context, namespace string, entries map[string]*Entry, keep time.Duration) {
	_ = s.do(ctx, func(ctx context.Context) error { // counted
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for key, e := range entries {
				if keep := s.keepFor(e, keep); keep > 0 {
					at := entryKey(namespace, key)
					s.settle.Eval(ctx, p, []string{at, at + ":l"},
						s.codec.encodeMeta(e), s.codec.encodeBody(e.Body), keep.Milliseconds(), "", channelOf(namespace), key)
				}
			}
			return nil
		})
		return err
	})
}
