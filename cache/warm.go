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

// A HotKey is a key and its place among those that a replica uses, 0 for the most used one.
type HotKey struct {
	Key  string
	Rank int
}

// What is told of the keys used most is bounded: so many each time, and none of the keys that were told
// in the last rounds. All of them are told in eight rounds.
const (
	hotStep   = hotKeys / 8
	hotRounds = 20
)

// noteHot tells the shared store from time to time which keys are used most, so
// that replicas which start later begin with them.
func (c *Cache) noteHot(ctx context.Context, ch *chain) {
	tick := time.NewTicker(c.o.HotInterval)
	defer tick.Stop()
	var noted noted
	for {
		select {
		case <-tick.C:
			due := noted.due(ch.memory.hottest(hotKeys))
			if len(due) > 0 && c.o.Shared.NoteHot(ctx, ch.namespace, due) == nil {
				noted.add(due)
			}
		case <-ctx.Done():
			return
		}
	}
}

// noted are the keys that the shared store was told of, each with the round.
type noted struct {
	round int
	last  map[string]int
}

// due begins a round. It gives those to be told of keys, of which the most used one is first, and
// forgets all others.
func (n *noted) due(keys []string) (due []HotKey) {
	n.round++
	last := make(map[string]int, len(keys))
	for rank, key := range keys {
		if at, ok := n.last[key]; ok && n.round-at < hotRounds {
			last[key] = at
		} else if len(due) < hotStep {
			due = append(due, HotKey{key, rank})
		}
	}
	n.last = last
	return due
}

// add notes that they were told.
func (n *noted) add(told []HotKey) {
	for _, key := range told {
		n.last[key.Key] = n.round
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
