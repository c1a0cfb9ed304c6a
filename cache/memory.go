package cache

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/upstream/account"
)

// memory keeps one entry per key, within a bound of bytes. Entries carry their
// own lifetime, so nothing here expires: what is asked for no more is evicted.
type memory struct {
	*otter.Cache[string, *slot]
	counts   *counts
	confined confined
}

// slot is an entry in memory and what became of the last try to replace it.
// A newer entry gets a slot of its own.
type slot struct {
	entry     *Entry
	renewing  atomic.Bool   // a flight in the background is under way for it
	unaudited atomic.Bool   // Options.Taken has to be told of it, once a caller asks for it
	hits      atomic.Uint32 // how often the entry was given, as far as that matters
	failed    atomic.Pointer[failed]

	previousHits uint32 // of the entry that it replaced
}

type failed struct {
	at  time.Time
	err error
}

// retryAfter is how long a key rests after the origin failed for it, so that a
// dead origin is not asked by every hit on a stale entry.
const retryAfter = time.Second

// fail notes that the origin had nothing newer to give.
func (s *slot) fail(at time.Time, err error) { s.failed.Store(&failed{at, err}) }

// resting reports whether the origin failed a moment ago.
func (s *slot) resting(now time.Time) bool {
	f := s.failed.Load()
	return f != nil && now.Sub(f.at) < retryAfter
}

// known gives the entry, nil for no slot.
func (s *slot) known() *Entry {
	if s == nil {
		return nil
	}
	return s.entry
}

// sameAs tells whether s holds just what e says, as far as the shared store,
// which keeps microseconds, can tell.
func (e *Entry) sameAs(s *slot) bool {
	return s != nil && e.ETag == s.entry.ETag && e.Height == s.entry.Height && e.ReadAt.UnixMicro() == s.entry.ReadAt.UnixMicro()
}

func newMemory(bytes, confinedBytes int64, n *counts) *memory {
	return &memory{counts: n, confined: confined{most: confinedBytes}, Cache: otter.Must(&otter.Options[string, *slot]{
		MaximumWeight: uint64(bytes),
		Weigher:       weigh,
		StatsRecorder: n,
		Executor:      func(upkeep func()) { upkeep() }, // takes less than to have another goroutine do it
	})}
}

// put keeps e unless a newer entry is there that q believes, and returns the slot
// of the key.
func (m *memory) put(q *Query, e *Entry) *slot {
	s, _ := m.Compute(q.Key, func(old *slot, found bool) (*slot, otter.ComputeOp) {
		if found && !q.requires().Replaces(e.Stamp(), old.entry.Stamp()) {
			return old, otter.CancelOp
		}
		if e.Height > 0 {
			m.counts.renewals.Add(1)
		}
		s := &slot{entry: e}
		if found {
			s.previousHits = old.hits.Load()
		}
		return s, otter.WriteOp
	})
	if q.Confined && s.entry == e {
		m.confine(q.Key, s)
	}
	return s
}

// reweigh has the entry of a key weighed again, after something was made of it.
func (m *memory) reweigh(key string) {
	m.ComputeIfPresent(key, func(s *slot) (*slot, otter.ComputeOp) { return s, otter.WriteOp })
}

// peek is GetIfPresent without a trace in the order of eviction.
func (m *memory) peek(key string) *slot {
	e, _ := m.GetEntryQuietly(key)
	return e.Value
}

// purge removes the selected entries and counts them.
func (m *memory) purge(sel Selection) (n int) {
	for key := range m.Keys() {
		if sel.Has(key) {
			if _, removed := m.Invalidate(key); removed {
				n++
			}
		}
	}
	return n
}

// overhead is what an entry takes beside its strings and its body: its slot, the
// node of the store and the store's table, the entry, its content and validator.
const overhead = 384

// weigh is what an entry takes of the heap, in bytes.
func weigh(key string, s *slot) uint32 {
	weight := overhead + heap.Allocated(len(key)) + s.entry.weight()
	return uint32(min(weight, math.MaxUint32))
}

// weight is what the strings and the body of a content take, and all that was
// made of it since.
func (c *Content) weight() int {
	sum := len(c.Type) + heap.Allocated(len(c.Link)) + heap.Allocated(cap(c.Body))
	for i := range c.Made {
		if made := c.Made[i].Load(); made != nil {
			sum += heap.Allocated(cap(*made))
		}
	}
	if derived := c.variants.derived.Load(); derived != nil {
		for _, one := range derived.kept {
			sum += overhead + len(one.name) + one.content.weight()
		}
	}
	return sum
}

// reserveSteps are how many sizes memory may have: it is not fitted for each byte.
const reserveSteps = 64

// Account returns the account whose bytes entries make room for.
func (c *Cache) Account() *account.Account { return c.o.Account }

// makeRoom evicts entries for the bytes of the account. It allows for one step more than is in use now, so
// that bytes that are reserved and released in turn do not change the maximum each time.
func (c *Cache) makeRoom(used int64) {
	step := max(1, c.o.MemoryBytes/reserveSteps)
	needed := (max(0, used) + step - 1) / step
	if now := c.steps.Load(); needed <= now && needed+1 >= now {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps.Store((max(0, c.o.Account.Used()) + step - 1) / step)
	c.chain.Load().memory.SetMaximum(uint64(c.capacity()))
}

// capacity returns the bytes that entries can take beside those of the account.
func (c *Cache) capacity() int64 {
	step := max(1, c.o.MemoryBytes/reserveSteps)
	return c.o.MemoryBytes - min(c.steps.Load()*step, c.o.MemoryBytes/2)
}
