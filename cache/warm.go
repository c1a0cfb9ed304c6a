package cache

import (
	"context"
	"time"
)

// Bounds of what a replica that starts takes over from others. 30,000 keys are
// four of five requests for 100,000 keys whose use follows Zipf's law at 0.9.
const (
	hotKeys      = 32 << 10
	hotKeyLength = 512 // bytes; a longer key is not noted
	warmStep     = 256 // keys in one round trip
	warmTime     = 3 * time.Second
)

// noteHot tells the shared store from time to time which keys are used most, so
// that replicas which start later begin with them.
func (c *Cache) noteHot(ctx context.Context, ch *chain) {
	tick := time.NewTicker(c.o.HotInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.o.Shared.NoteHot(ctx, ch.namespace, ch.memory.hottest(hotKeys))
		case <-ctx.Done():
			return
		}
	}
}

// hottest gives at most n keys, the most used one first.
func (m *memory) hottest(n int) []string {
	keys := make([]string, 0, min(n, m.EstimatedSize()))
	for e := range m.Hottest() {
		if len(keys) == n {
			break
		}
		if len(e.Key) <= hotKeyLength {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// warm takes over the entries of the keys that other replicas use most, until
// half of memory is full or its time is over. A shared store that does not
// answer ends it: then requests fill memory, as they do anyway.
func (c *Cache) warm(ctx context.Context, ch *chain) {
	defer close(ch.warmed)
	ctx, cancel := context.WithTimeout(ctx, warmTime)
	defer cancel()
	keys, err := c.o.Shared.HotKeys(ctx, ch.namespace, hotKeys)
	for err == nil && len(keys) > 0 && ch.memory.WeightedSize() < uint64(c.o.MemoryBytes)/2 {
		step := keys[:min(warmStep, len(keys))]
		keys = keys[len(step):]
		var found map[string]*Entry
		found, err = c.o.Shared.Load(ctx, ch.namespace, step...)
		for key, e := range found {
			if !e.expired(c.o.Now) {
				ch.memory.put(&Query{Key: key}, e).unaudited.Store(c.o.Taken != nil)
				c.counts.warmed.Add(1)
			}
		}
	}
}

// Warming tells whether entries are being taken over from other replicas. It
// takes a few seconds at most after SetNamespace.
func (c *Cache) Warming() bool {
	select {
	case <-c.chain.Load().warmed:
		return false
	default:
		return true
	}
}
