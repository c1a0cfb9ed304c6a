package lane

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/maypok86/otter/v2"

	"github.com/tipcache/tipcache/upstream/account"
)

// Limits of the table, in bytes.
const (
	memoryStep   = 256 << 10 // reserved at a time
	maxKey       = 256       // requests with a longer key go to net/http
	handlerBytes = 640       // size of a handler without the strings and the body of its request
)

// A table maps keys to handlers. When it is full it retains those of frequent requests. Forget replaces the table, so
// that handlers of earlier requests are registered in one that is no longer used.
type table struct {
	lane  *Lane
	known handlers

	memory   *account.Account // nil means no limit
	mu       sync.Mutex
	reserved int64
	full     bool // no memory was left, which limits the table to reserved
	released bool
}

// handlers is a part of [otter.Cache]. It is an interface so that packages that name a type of this one do not compile otter's
// generic methods once more.
type handlers interface {
	GetIfPresent(key string) (Handler, bool)
	Set(key string, h Handler) (Handler, bool)
	WeightedSize() uint64
	SetMaximum(bytes uint64)
}

func newTable(l *Lane) *table {
	return &table{lane: l, memory: l.o.Memory, known: otter.Must(&otter.Options[string, Handler]{
		MaximumWeight: math.MaxInt64,
		Weigher: func(key string, h Handler) uint32 {
			weight := handlerBytes + 2*len(key)
			if r, ok := h.(*knownRequest); ok {
				weight += r.bytes
			}
			return uint32(weight)
		},
		Executor: func(upkeep func()) { upkeep() },
	})}
}

// get returns the handler of a key, or nil.
func (t *table) get(key []byte) Handler {
	if len(key) > maxKey {
		return nil
	}
	h, _ := t.known.GetIfPresent(unsafe.String(&key[0], len(key))) //nolint:gosec // GetIfPresent does not retain it
	return h
}

// put stores the handler of a key, and reserves memory for it.
func (t *table) put(key string, h Handler) {
	if len(key) > maxKey {
		return
	}
	t.known.Set(key, h)
	t.mu.Lock()
	defer t.mu.Unlock()
	for !t.released && (t.full || int64(t.known.WeightedSize()) > t.reserved) {
		if t.full = !t.memory.Reserve(account.Lane, memoryStep); t.full {
			t.known.SetMaximum(uint64(t.reserved))
			return
		}
		t.reserved += memoryStep
		t.known.SetMaximum(math.MaxInt64)
	}
}

func (t *table) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.released = true
	t.memory.Release(account.Lane, t.reserved)
	t.reserved = 0
}

// recentKeys holds hashes of recent keys. A request with a body enters the table when it is seen again: bodies that are
// never repeated would displace other requests.
type recentKeys [1 << 14]atomic.Uint64

var recentSeed = maphash.MakeSeed()

// seenBefore reports whether a key was seen recently, and records it.
func (s *recentKeys) seenBefore(key []byte) bool {
	sum := maphash.Bytes(recentSeed, key)
	return s[sum%uint64(len(s))].Swap(sum) == sum
}
