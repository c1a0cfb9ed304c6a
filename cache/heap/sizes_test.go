package heap_test

import (
	"testing"

	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestAllocatedBytesMatchRuntime(t *testing.T) {
	for _, n := range []int{0, 1, 8, 9, 100, 1024, 1025, 5000, 32 << 10, 32<<10 + 1, 100_000} {
		expect.Equal(t, heap.Allocated(n), cap(append([]byte(nil), make([]byte, n)...)), "Allocated(%d)", n)
	}
}
