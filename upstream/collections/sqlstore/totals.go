package sqlstore

import "sync"

// maxTotals bounds the ranges remembered. Clients use few.
const maxTotals = 1000

// assetRange is a filter on the asset count; its bounds are inclusive.
type assetRange struct{ min, max int64 }

// totals remembers how many collections a range of asset counts held at one
// generation of the store. Counting means reading the whole range, which the
// pages of one walk would otherwise repeat.
type totals struct {
	mu         sync.Mutex
	generation int64
	counted    map[assetRange]int64
}

// get returns the total of the range and the generation it belongs to. The
// caller compares that with the store's.
func (t *totals) get(r assetRange) (generation, total int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	total, ok = t.counted[r]
	return t.generation, total, ok
}

func (t *totals) put(r assetRange, generation, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if generation < t.generation {
		return
	}
	if generation > t.generation || len(t.counted) >= maxTotals {
		t.generation, t.counted = generation, map[assetRange]int64{}
	}
	t.counted[r] = total
}
