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

// Bounds of what is remembered, in bytes.
const (
	ownMemory    = 8 << 20   // where no Memory is given
	memoryStep   = 256 << 10 // that is reserved at once
	maxKey       = 256       // of a request; longer ones are net/http's
	handlerBytes = 640       // that a handler takes beside the texts and the body of its request
)

// A table has the handlers of the requests that are remembered, by their keys. Where they have
// no room together it keeps the requests that come often. Forgetting replaces it, so a connection that
// keeps the table before it gives up on remembering more.
type table struct {
	lane  *Lane
	known *otter.Cache[string, Handler]

	memory   *account.Account // nil: none is reserved
	mu       sync.Mutex
	reserved int64
	dropped  bool
}

func newTable(l *Lane) *table {
	t := &table{lane: l, memory: l.o.Memory, known: otter.Must(&otter.Options[string, Handler]{
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
	if t.memory == nil {
		t.known.SetMaximum(ownMemory)
	}
	return t
}

// find gives the handler of a key, nil for none.
func (t *table) find(key []byte) Handler {
	if len(key) == 0 || len(key) > maxKey {
		return nil
	}
	h, _ := t.known.GetIfPresent(unsafe.String(&key[0], len(key))) //nolint:gosec // which does not keep it
	return h
}

// put keeps the handler of a key, and has room set aside for it.
func (t *table) put(key string, h Handler) {
	if len(key) > maxKey {
		return
	}
	t.known.Set(key, h)
	if t.memory == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for !t.dropped && int64(t.known.WeightedSize()) > t.reserved {
		if !t.memory.Reserve(account.Lane, memoryStep) {
			t.known.SetMaximum(uint64(t.reserved))
			return
		}
		t.reserved += memoryStep
	}
}

// drop releases what was reserved.
func (t *table) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped = true
	t.memory.Release(account.Lane, t.reserved)
	t.reserved = 0
}

// sightings are keys that came lately. What has a body is remembered when it comes again: of bodies that
// differ each time a table would be filled for nothing.
type sightings [1 << 14]atomic.Uint64

var sightingSeed = maphash.MakeSeed()

// again reports whether a key was seen before, and notes it.
func (s *sightings) again(key []byte) bool {
	sum := maphash.Bytes(sightingSeed, key)
	return s[sum%uint64(len(s))].Swap(sum) == sum
}
