package heights

import "sync"

// A beacon wakes everybody who waits for something to move.
type beacon struct {
	mu   sync.Mutex
	next chan struct{}
}

// lit is closed by the next flash. Take it before looking at what may move.
func (b *beacon) lit() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

func (b *beacon) flash() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}
