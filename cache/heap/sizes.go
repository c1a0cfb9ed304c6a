package heap

import (
	"math"
	"runtime/metrics"
	"sort"
	"sync"
)

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

// Allocated is how much of the heap a piece of n bytes takes.
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
