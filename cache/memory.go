package cache

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

// overhead is what an entry weighs in memory beside its strings and body.
const overhead = 320

// memory keeps one entry per key, within a bound of bytes. Entries carry their
// own lifetime, so nothing here expires: what is asked for no more is evicted.
type memory struct {
	store *otter.Cache[string, *held]
}

// held is an entry in memory and what became of the last try to replace it.
type held struct {
	entry    *Entry
	renewing atomic.Bool // a flight in the background is under way for it
	failed   atomic.Pointer[failure]
}

type failure struct {
	at  time.Time
	err error
}

// fail notes that the origin had nothing newer to give. Whoever does get
// something newer holds it in another place, where this is forgotten.
func (h *held) fail(at time.Time, err error) { h.failed.Store(&failure{at, err}) }

// trouble is what the origin failed with since it gave the entry, nil if it
// did not.
func (h *held) trouble() error {
	if f := h.failed.Load(); f != nil {
		return f.err
	}
	return nil
}

// resting tells whether the origin failed a moment ago.
func (h *held) resting(now time.Time) bool {
	f := h.failed.Load()
	return f != nil && now.Sub(f.at) < retryAfter
}

// knownAs tells whether h holds just what e says, as far as the shared store,
// which keeps microseconds, can tell.
func (e *Entry) knownAs(h *held) bool {
	return h != nil && e.ETag == h.entry.ETag && e.Height == h.entry.Height && micros(e.ReadAt) == micros(h.entry.ReadAt)
}

func newMemory(bytes int64, evictions *counts) *memory {
	return &memory{store: otter.Must(&otter.Options[string, *held]{
		MaximumWeight: uint64(bytes),
		Weigher:       weigh,
		StatsRecorder: evictions,
		Executor:      func(upkeep func()) { upkeep() }, // takes less than to have another goroutine do it
	})}
}

func weigh(key string, h *held) uint32 {
	weight := overhead + len(key) + h.entry.weight()
	return uint32(min(weight, math.MaxUint32))
}

// get returns what is held for the key, nil for nothing.
func (m *memory) get(key string) *held {
	h, _ := m.store.GetIfPresent(key)
	return h
}

// put keeps e unless what is held is newer, and returns what is held then.
func (m *memory) put(key string, e *Entry) *held {
	h, _ := m.store.Compute(key, func(old *held, found bool) (*held, otter.ComputeOp) {
		if found && !e.newerThan(old.entry) {
			return old, otter.CancelOp
		}
		return &held{entry: e}, otter.WriteOp
	})
	return h
}

// reweigh has the entry of a key weighed again, after something was made of it.
func (m *memory) reweigh(key string) {
	m.store.ComputeIfPresent(key, func(h *held) (*held, otter.ComputeOp) { return h, otter.WriteOp })
}

func (m *memory) entries() int { return m.store.EstimatedSize() }

func (m *memory) bytes() uint64 { return m.store.WeightedSize() }
