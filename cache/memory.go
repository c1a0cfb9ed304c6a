package cache

import (
	"iter"
	"math"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/upstream/account"
)

// memory holds one entry per key, up to a number of bytes. Entries do not expire here; unused ones are evicted. It is an
// interface because each package that names the type Cache would otherwise compile otter's generic methods once more.
type memory interface {
	put(q *Query, e *Entry) *slot
	peek(key string) *slot
	reweigh(key string)
	purge(sel Selection) int

	All() iter.Seq2[string, *slot]
	GetIfPresent(key string) (*slot, bool)
	Set(key string, s *slot) (*slot, bool)
	SetIfAbsent(key string, s *slot) (*slot, bool)
	EstimatedSize() int
	WeightedSize() uint64
	SetMaximum(bytes uint64)
}

// otterMemory implements memory.
type otterMemory struct {
	*otter.Cache[string, *slot]
	counts   *counts
	confined confined
}

// slot is an entry in memory and the state of replacing it. A newer entry gets a new slot.
type slot struct {
	entry    *Entry
	renewing atomic.Bool   // a background flight is refreshing it
	hits     atomic.Uint32 // uses since the entry was stored or, if the key is in space.ahead, since the block began; counted up to ahead.Often
	failed   atomic.Pointer[failed]

	previousHits uint32 // hits of the entry that it replaced
	saved        bool   // by Save: it belongs to no chain
}

type failed struct {
	at  time.Time
	err error
}

// retryAfter is the pause after a failure of the origin: not every hit on a stale entry reads a dead origin.
const retryAfter = time.Second

// fail records that the origin failed, or was too slow ([errSlow]).
func (s *slot) fail(at time.Time, err error) { s.failed.Store(&failed{at, err}) }

func (s *slot) failedRecently(now time.Time) bool { return s.failed.Load().isRecent(now) }

func (f *failed) isRecent(now time.Time) bool { return f != nil && now.Sub(f.at) < retryAfter }

// known returns the entry, nil for a nil slot.
func (s *slot) known() *Entry {
	if s == nil {
		return nil
	}
	return s.entry
}

// sameAs reports whether s holds an entry equal to e, at the shared store's precision of microseconds.
func (e *Entry) sameAs(s *slot) bool {
	return s != nil && e.ETag == s.entry.ETag && e.Height == s.entry.Height && e.ReadAt.UnixMicro() == s.entry.ReadAt.UnixMicro()
}

func newMemory(bytes, confinedBytes int64, n *counts) *otterMemory {
	return &otterMemory{counts: n, confined: confined{most: confinedBytes}, Cache: otter.Must(&otter.Options[string, *slot]{
		MaximumWeight: uint64(bytes),
		Weigher:       weigh,
		StatsRecorder: n,
		Executor:      func(upkeep func()) { upkeep() }, // cheaper than another goroutine
	})}
}

// put stores e, unless memory has a newer entry that is not above q.MaxHeight, and returns the slot of the key.
func (m *otterMemory) put(q *Query, e *Entry) *slot {
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

// reweigh updates the size of an entry after data was derived from it.
func (m *otterMemory) reweigh(key string) {
	m.ComputeIfPresent(key, func(s *slot) (*slot, otter.ComputeOp) { return s, otter.WriteOp })
}

// peek is GetIfPresent without affecting eviction.
func (m *otterMemory) peek(key string) *slot {
	e, _ := m.GetEntryQuietly(key)
	return e.Value
}

func (m *otterMemory) purge(sel Selection) (n int) {
	for key := range m.Keys() {
		if sel.Has(key) {
			if _, removed := m.Invalidate(key); removed {
				n++
			}
		}
	}
	return n
}

// overhead is the size of an entry without its strings and body: slot, nodes and table, entry, content and validator.
const overhead = 384

// weigh returns the heap size of an entry, in bytes.
func weigh(key string, s *slot) uint32 {
	weight := overhead + heap.Allocated(len(key)) + s.entry.weight()
	return uint32(min(weight, math.MaxUint32))
}

// weight returns the size of a content's strings and body and of everything derived from it.
func (c *Content) weight() int {
	sum := len(c.Type) + heap.Allocated(len(c.Link)) + heap.Allocated(cap(c.Body))
	for i := range c.Encodings {
		if made := c.Encodings[i].Load(); made != nil {
			sum += heap.Allocated(cap(*made))
		}
	}
	if derived := c.variants.derived.Load(); derived != nil {
		for i := range derived.kept {
			if one := derived.kept[i].Load(); one != nil {
				sum += overhead + len(one.name) + one.content.weight()
			}
		}
	}
	return sum
}

// Memory shrinks in steps of 1/reserveSteps, so that not every byte adjusts it.
const reserveSteps = 64

// Account returns the account of memory reserved in place of entries.
func (c *Cache) Account() *account.Account { return c.o.Account }

// makeRoom evicts entries to free the bytes reserved in the account. It frees up to one step more, so that small
// changes do not adjust the maximum each time.
func (c *Cache) makeRoom(used int64) {
	step := max(1, c.o.MemoryBytes/reserveSteps)
	needed := (max(0, used) + step - 1) / step
	if now := c.steps.Load(); needed <= now && needed+1 >= now {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps.Store((max(0, c.o.Account.Used()) + step - 1) / step)
	c.space.Load().memory.SetMaximum(uint64(c.capacity()))
}

func (c *Cache) capacity() int64 {
	step := max(1, c.o.MemoryBytes/reserveSteps)
	return c.o.MemoryBytes - min(c.steps.Load()*step, c.o.MemoryBytes/2)
}
