package sqlstore

import "sync"

// maxTotals bounds the ranges remembered. Clients use few.
const maxTotals = 1000

// totals remembers how many collections a range of asset counts, given as the
// condition for it, held at one generation of the store. Counting means reading
// the whole range, which the pages of one walk would otherwise repeat.
type totals struct {
	mu         sync.Mutex
	generation int64
	counted    map[string]int64
}

// get returns the total of a range and the generation it belongs to. The
// caller compares that with the store's.
func (t *totals) get(condition string) (generation, total int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	total, ok = t.counted[condition]
	return t.generation, total, ok
}

func (t *totals) put(condition string, generation, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if generation < t.generation {
		return
	}
	if generation > t.generation || len(t.counted) >= maxTotals {
		t.generation, t.counted = generation, map[string]int64{}
	}
	t.counted[condition] = total
}
