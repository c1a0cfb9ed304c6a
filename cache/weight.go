package cache

import (
	"math"
	"runtime/metrics"
	"sort"
	"sync"
)

// overhead is what an entry takes beside its strings and its body: its slot, the
// node of the store and the store's table, the entry, its content and validator.
const overhead = 376

// weigh is what an entry takes of the heap, in bytes.
func weigh(key string, s *slot) uint32 {
	weight := overhead + allocated(len(key)) + s.entry.weight()
	return uint32(min(weight, math.MaxUint32))
}

// weight is what the strings and the body of a content take, and all that was
// made of it since.
func (c *Content) weight() int {
	sum := len(c.Type) + allocated(len(c.Link)) + allocated(cap(c.Body))
	for i := range c.variants.encoded {
		if made := c.variants.encoded[i].body.Load(); made != nil {
			sum += allocated(cap(*made))
		}
	}
	if derived := c.variants.derived.Load(); derived != nil {
		for _, d := range derived.kept {
			sum += overhead + len(d.name) + d.content.weight()
		}
	}
	return sum
}

// sizeClasses are the sizes in which the runtime gives memory, as it tells itself.
var sizeClasses = sync.OnceValue(func() (classes []int) {
	told := []metrics.Sample{{Name: "/gc/heap/allocs-by-size:bytes"}}
	metrics.Read(told)
	if told[0].Value.Kind() != metrics.KindFloat64Histogram {
		return nil
	}
	for _, from := range told[0].Value.Float64Histogram().Buckets {
		if from > 1 && !math.IsInf(from, 0) {
			classes = append(classes, int(from)-1) // a bucket begins behind the class before
		}
	}
	return classes
})

// page is the unit of what is larger than the largest class.
const page = 8 << 10

// allocated is how much of the heap a piece of n bytes takes.
func allocated(n int) int {
	if n == 0 {
		return 0
	}
	classes := sizeClasses()
	if i := sort.SearchInts(classes, n); i < len(classes) {
		return classes[i]
	}
	return (n + page - 1) / page * page
}
