package heap

// Allocations of up to smallSize bytes have size classes, and larger ones whole pages.
const (
	smallSize = 32 << 10
	page      = 8 << 10
)

// Allocated returns about the heap size of an allocation of n bytes. Size classes waste a sixteenth on average.
func Allocated(n int) int {
	if n <= smallSize {
		return n + n/16
	}
	return (n + page - 1) / page * page
}
