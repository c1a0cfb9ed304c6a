package heap

import (
	"math"
	"runtime/metrics"
	"sort"
	"sync"
)

// sizeClasses are the size classes of the runtime's allocator, as reported by its metrics.
var sizeClasses = sync.OnceValue(func() (classes []int) {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs-by-size:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return nil
	}
	for _, from := range sample[0].Value.Float64Histogram().Buckets {
		if from > 1 && !math.IsInf(from, 0) {
			classes = append(classes, int(from)-1) // a bucket begins after the previous class
		}
	}
	return classes
})

// page is the unit of allocations larger than the largest class.
const page = 8 << 10

// Allocated returns the heap size of an allocation of n bytes.
func Allocated(n int) int {
	if n == 0 {
		return 0
	}
	classes := sizeClasses()
	if i := sort.SearchInts(classes, n); i < len(classes) {
		return classes[i]
	}
	return (n + page - 1) / page * page
}
