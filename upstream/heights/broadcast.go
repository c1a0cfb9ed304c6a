package heights

import "sync"

// A broadcast wakes all goroutines that wait for something to move.
type broadcast struct {
	mu     sync.Mutex
	change chan struct{}
}

// next is closed by the next notify, or at the end of what begins next. Take it
// before looking at what may move.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.change == nil {
		b.change = make(chan struct{})
	}
	return b.change
}

func (b *broadcast) notify() { b.begin()() }

// begin returns what wakes the callers that wait by now.
func (b *broadcast) begin() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change := b.change
	b.change = nil
	return func() {
		if change != nil {
			close(change)
		}
	}
}
