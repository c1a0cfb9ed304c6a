package devnet

import "sync"

// A notice tells its watchers that something has changed. The zero value is ready.
type notice struct {
	lock sync.Mutex
	next chan struct{} // closed at the next change
}

// changes is closed at the next change. Taken before the state is read, it
// misses nothing.
func (n *notice) changes() <-chan struct{} {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

// signal tells of a change that has been made.
func (n *notice) signal() {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}
