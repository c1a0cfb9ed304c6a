package cache

import (
	"math"

	"github.com/tipcache/tipcache/cache/heap"
)

// overhead is what an entry takes beside its strings and its body: its slot, the
// node of the store and the store's table, the entry, its content and validator.
const overhead = 376

// weigh is what an entry takes of the heap, in bytes.
func weigh(key string, s *slot) uint32 {
	weight := overhead + heap.Allocated(len(key)) + s.entry.weight()
	return uint32(min(weight, math.MaxUint32))
}

// weight is what the strings and the body of a content take, and all that was
// made of it since.
func (c *Content) weight() int {
	sum := len(c.Type) + heap.Allocated(len(c.Link)) + heap.Allocated(cap(c.Body))
	for i := range c.variants.encoded {
		if made := c.variants.encoded[i].body.Load(); made != nil {
			sum += heap.Allocated(cap(*made))
		}
	}
	for name, derived := range c.variants.derived.All() {
		sum += overhead + len(name) + derived.weight()
	}
	return sum
}
