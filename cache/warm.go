package cache

import (
	"context"
	"slices"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// Limits of what a starting replica loads. 30,000 keys serve four of five requests for 100,000 keys that are used
// according to Zipf's law with exponent 0.9.
const (
	hotKeys      = 32 << 10
	hotKeyLength = 512       // maximum bytes of a key to report
	hotBody      = 256 << 10 // maximum bytes of its body
	warmStep     = 32        // keys per round trip: their bodies arrive within the store's timeout, and more keys would save little time
	warmTime     = 3 * time.Second
)

// HotKey is a key and its rank among those that a replica uses, 0 for the most used.
type HotKey struct {
	Key  string
	Rank int
}

// hotStep is the maximum number of keys reported at a time.
const hotStep = hotKeys / 8

// reportHot reports the most used keys to the shared store, for replicas that start later: at most hotStep each time.
func (c *Cache) reportHot(ctx context.Context, sp *space) {
	tick := time.NewTicker(c.o.HotInterval)
	defer tick.Stop()
	for round := 0; ; round++ {
		select {
		case <-tick.C:
			keys := sp.memory.hottest()
			parts := len(keys)/hotStep + 1
			due := slices.DeleteFunc(keys, func(key HotKey) bool { return key.Rank%parts != round%parts })
			if len(due) > 0 {
				_ = c.o.Shared.SaveHotKeys(ctx, sp.namespace, due) // the store counts errors
			}
		case <-ctx.Done():
			return
		}
	}
}

// hottest returns at most hotKeys keys of a space, the most used first.
func (m *otterMemory) hottest() []HotKey {
	keys := make([]HotKey, 0, min(hotKeys, m.EstimatedSize()))
	for e := range m.Hottest() {
		if len(keys) == hotKeys {
			break
		}
		if len(e.Key) <= hotKeyLength && len(e.Value.entry.Body) <= hotBody && !e.Value.saved {
			keys = append(keys, HotKey{e.Key, len(keys)})
		}
	}
	return keys
}

// warm loads the entries that other replicas use most, until half of memory is full or warmTime is over. It ends
// if the shared store fails; requests then fill memory as usual.
func (c *Cache) warm(ctx context.Context, sp *space) {
	defer sp.warming.Store(false)
	ctx, cancel := context.WithTimeout(ctx, warmTime)
	defer cancel()
	keys, err := c.o.Shared.HotKeys(ctx, sp.namespace, hotKeys)
	for err == nil && len(keys) > 0 && sp.memory.WeightedSize() < uint64(c.o.MemoryBytes)/2 {
		step := keys[:min(warmStep, len(keys))]
		keys = keys[len(step):]
		var found map[string]*Entry
		err = upstream.Guard(c.o.Logger, "preload", func() (err error) {
			found, err = c.o.Shared.Load(ctx, sp.namespace, step...)
			return err
		})
		for key, e := range found {
			if e.pastExpires(c.o.Now) || e.sameAs(sp.memory.peek(key)) {
				continue
			}
			if at := sp.memory.put(&Query{Key: key}, e); at.entry == e {
				c.counts.warmed.Add(1)
			}
		}
	}
}

// Warming reports whether entries are being loaded from the shared store, for a few seconds at most after SetNamespace.
func (c *Cache) Warming() bool { return c.space.Load().warming.Load() }
