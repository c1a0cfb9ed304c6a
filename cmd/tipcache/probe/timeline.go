package probe

import (
	"sort"
	"sync"
	"time"
)

// A timeline records when blocks were first named by any server.
type timeline struct {
	mu     sync.Mutex
	blocks []namedBlock // in increasing order of both fields
}

type namedBlock struct {
	height int64
	at     time.Time
}

// add records that a server names a block now.
func (t *timeline) add(height int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.blocks); height > 0 && (n == 0 || t.blocks[n-1].height < height) {
		t.blocks = append(t.blocks, namedBlock{height, time.Now()})
	}
}

// newest returns the newest block that was named, or 0.
func (t *timeline) newest() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.blocks) == 0 {
		return 0
	}
	return t.blocks[len(t.blocks)-1].height
}

// behind returns by how many blocks a height was behind the newest block that had been named before a time, and for how
// long a later block had been named.
func (t *timeline) behind(height int64, at time.Time) (blocks int64, age time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	later := sort.Search(len(t.blocks), func(i int) bool { return t.blocks[i].height > height })
	known := sort.Search(len(t.blocks), func(i int) bool { return !t.blocks[i].at.Before(at) })
	if later >= known {
		return 0, 0
	}
	return t.blocks[known-1].height - height, at.Sub(t.blocks[later].at)
}
