package cache

import (
	"sync"
	"weak"

	"github.com/maypok86/otter/v2"
)

// Entries of confined queries use at most 1/confinedShare of memory.
const confinedShare = 4

// confined lists the entries of confined queries, the oldest first. An entry that memory has removed or replaced
// counts until it is the oldest and is evicted.
type confined struct {
	mu      sync.Mutex
	entries []confinedEntry
	bytes   int64
	most    int64
}

type confinedEntry struct {
	key   string
	slot  weak.Pointer[slot]
	bytes int64
}

// confine adds an entry of a confined query and evicts the oldest ones if they exceed their share. An entry
// counts with twice its size, because its encoded form is kept as well.
func (m *otterMemory) confine(key string, s *slot) {
	c, size := &m.confined, 2*int64(weigh(key, s))
	var evicted []confinedEntry
	c.mu.Lock()
	c.entries, c.bytes = append(c.entries, confinedEntry{key, weak.Make(s), size}), c.bytes+size
	for c.bytes > c.most {
		evicted, c.bytes = append(evicted, c.entries[0]), c.bytes-c.entries[0].bytes
		c.entries = c.entries[1:]
	}
	c.mu.Unlock()
	for _, e := range evicted {
		m.ComputeIfPresent(e.key, func(s *slot) (*slot, otter.ComputeOp) {
			if weak.Make(s) != e.slot { // a newer one
				return s, otter.CancelOp
			}
			return s, otter.InvalidateOp
		})
	}
}
