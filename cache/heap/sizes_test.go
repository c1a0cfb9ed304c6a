package heap_test

import (
	"testing"

	"github.com/tipcache/tipcache/cache/heap"
)

func TestAllocatedBytesAreNearRuntimes(t *testing.T) {
	for _, n := range []int{0, 100, 1024, 1025, 5000, 32 << 10, 32<<10 + 1, 100_000} {
		got, want := heap.Allocated(n), cap(append([]byte(nil), make([]byte, n)...))
		if got < want*7/8 || got > want*9/8 {
			t.Errorf("Allocated(%d) = %d, want about %d", n, got, want)
		}
	}
}
