package cache

import (
	"context"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// Limits of what a starting replica loads. 30,000 keys serve four of five requests for 100,000 keys that are used
// according to Zipf's law with exponent 0.9.
const (
	hotKeys      = 32 << 10
	hotKeyLength = 512 // maximum bytes of a key to report
	warmStep     = 256 // keys per round trip
	warmTime     = 3 * time.Second
)

// HotKey is a key and its rank among those that a replica uses, 0 for the most used.
type HotKey struct {
	Key  string
	Rank int
}

// At most hotStep keys are reported per round, and none again within hotRounds. All are reported within eight rounds.
const (
	hotStep   = hotKeys / 8
	hotRounds = 20
)

// reportHot regularly reports the most used keys to the shared store, for replicas that start later.
func (c *Cache) reportHot(ctx context.Context, ch *chain) {
	tick := time.NewTicker(c.o.HotInterval)
	defer tick.Stop()
	var reports hotReports
	for {
		select {
		case <-tick.C:
			due := reports.due(ch.memory.hottest(hotKeys))
			if len(due) > 0 && c.o.Shared.SaveHotKeys(ctx, ch.namespace, due) == nil {
				reports.add(due)
			}
		case <-ctx.Done():
			return
		}
	}
}

// hotReports records the round in which each key was last reported.
type hotReports struct {
	round int
	last  map[string]int
}

// due begins a round. It returns the keys to report, from keys ordered by use, and forgets all others.
func (n *hotReports) due(keys []string) (due []HotKey) {
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

// add records that keys were reported.
func (n *hotReports) add(keys []HotKey) {
	for _, key := range keys {
		n.last[key.Key] = n.round
	}
}

// hottest returns at most n keys, the most used first.
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

// warm loads the entries that other replicas use most, until half of memory is full or warmTime is over. It ends
// if the shared store fails; requests then fill memory as usual.
func (c *Cache) warm(ctx context.Context, ch *chain) {
	defer close(ch.warmed)
	ctx, cancel := context.WithTimeout(ctx, warmTime)
	defer cancel()
	keys, err := c.o.Shared.HotKeys(ctx, ch.namespace, hotKeys)
	for err == nil && len(keys) > 0 && ch.memory.WeightedSize() < uint64(c.o.MemoryBytes)/2 {
		step := keys[:min(warmStep, len(keys))]
		keys = keys[len(step):]
		var found map[string]*Entry
		err = upstream.Guard(c.o.Logger, "preload", func() (err error) {
			found, err = c.o.Shared.Load(ctx, ch.namespace, step...)
			return err
		})
		for key, e := range found {
			if e.pastExpires(c.o.Now) || e.sameAs(ch.memory.peek(key)) {
				continue
			}
			if at := ch.memory.put(&Query{Key: key}, e); at.entry == e {
				at.unaudited.Store(c.o.OnNewEntry != nil)
				c.counts.warmed.Add(1)
			}
		}
	}
}

// Warming reports whether entries are being loaded from the shared store, which takes a few seconds at most after
// SetNamespace.
func (c *Cache) Warming() bool {
	select {
	case <-c.chain.Load().warmed:
		return false
	default:
		return true
	}
}
