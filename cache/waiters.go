package cache

import "sync"

// Subscriber takes the messages of other replicas. Its methods do not block.
type Subscriber interface {
	// Notify tells the flight of a key that the replica which had the lease has
	// settled it, or given it up: whether to ask the shared store again.
	Notify(key string, again bool)

	// NotifyAll has all flights ask again: messages may have been lost.
	NotifyAll()

	// Purged removes the selected entries from memory.
	Purged(sel Selection)
}

// waiters are the flights that wait for another replica's lease. A flight is the
// only one of its key, so a key has one channel at most. It carries whether to
// ask the shared store again.
type waiters struct {
	memory *memory // to purge
	mu     sync.Mutex
	byKey  map[string]chan bool
}

func (w *waiters) join(key string) <-chan bool {
	woken := make(chan bool, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byKey[key] = woken
	return woken
}

func (w *waiters) leave(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byKey, key)
}

// Notify implements [Subscriber].
func (w *waiters) Notify(key string, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	notify(w.byKey[key], again)
}

// NotifyAll implements [Subscriber].
func (w *waiters) NotifyAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, woken := range w.byKey {
		notify(woken, true)
	}
}

// Purged implements [Subscriber].
func (w *waiters) Purged(sel Selection) { w.memory.purge(sel) }

// notify does not wait: a flight that has a message will ask anyway.
func notify(woken chan<- bool, again bool) {
	select {
	case woken <- again:
	default:
	}
}

// drain forgets a message that came before the shared store is asked.
func drain(woken <-chan bool) {
	select {
	case <-woken:
	default:
	}
}
