package heights

import "sync"

// A broadcast wakes everybody who waits for something to move.
type broadcast struct {
	mu     sync.Mutex
	change chan struct{}
}

// next is closed by the next notify. Take it before looking at what may move.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.change == nil {
		b.change = make(chan struct{})
	}
	return b.change
}

func (b *broadcast) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.change != nil {
		close(b.change)
		b.change = nil
	}
}
