package collections

import (
	"slices"
	"sync"
)

// maxHistory is how many generations of a store are remembered.
const maxHistory = 1024

// A history is which block a store had counted in each of its last generations.
type history struct {
	mu    sync.Mutex
	marks []Mark // one for each generation, in their order
}

// note takes in a mark. A store with a lower generation than before is another one.
func (h *history) note(m Mark) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := len(h.marks) - 1
	if last >= 0 && m.Generation < h.marks[last].Generation {
		h.marks, last = nil, -1
	}
	if last >= 0 && m.Generation == h.marks[last].Generation {
		h.marks[last] = m
		return
	}
	if h.marks = append(h.marks, m); len(h.marks) > maxHistory {
		h.marks = slices.Delete(h.marks, 0, len(h.marks)-maxHistory)
	}
}

// counted is the last block known to be counted in a generation, 0 for none.
func (h *history) counted(generation int64) (block int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range slices.Backward(h.marks) {
		if m.Generation <= generation {
			return m.Cursor.Block
		}
	}
	return 0
}
