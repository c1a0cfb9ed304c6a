package cache

import (
	"context"
	"sync"
)

// lookups are the keys that are being looked up below memory.
//
// A flight gives its answer before the shared store has it, and memory may have
// dropped that again: what the shared store has until then is older. So the
// store is not read for a key beside its flight, a read that a flight has
// overtaken found nothing, and the next flight waits for the write of the one
// before.
type lookups struct {
	mu      sync.Mutex
	flights map[string]bool
	reads   map[string]bool // of the shared store: whether no flight has begun since
	writes  map[string]*write
}

// write is an answer on its way to the shared store.
type write struct {
	done chan struct{}
	err  error // valid once done is closed
}

func newLookups() lookups {
	return lookups{flights: map[string]bool{}, reads: map[string]bool{}, writes: map[string]*write{}}
}

func (l *lookups) beginFlight(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flights[key] = true
	if _, beside := l.reads[key]; beside {
		l.reads[key] = false
	}
}

func (l *lookups) endFlight(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.flights, key)
}

// beginRead tells whether the shared store may be read: the key is looked up by
// no other caller.
func (l *lookups) beginRead(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, beside := l.reads[key]; beside || l.flights[key] || l.writes[key] != nil {
		return false
	}
	l.reads[key] = true
	return true
}

// endRead calls keep unless a flight has begun meanwhile. None begins before
// keep has returned.
func (l *lookups) endRead(key string, keep func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reads[key] {
		keep()
	}
	delete(l.reads, key)
}

// beginWrite is called by a flight of the key. The function it returns ends the
// write.
func (l *lookups) beginWrite(key string) (end func(error)) {
	w := &write{done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes[key] = w
	return func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.writes[key] == w {
			delete(l.writes, key)
		}
		w.err = err
		close(w.done)
	}
}

// awaitWrite waits for the write of the flight before, if it is under way, and
// gives what it failed with.
func (l *lookups) awaitWrite(ctx context.Context, key string) error {
	l.mu.Lock()
	w := l.writes[key]
	l.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.wait(ctx)
}

// awaitWrites waits for the writes of the selected keys that are under way.
func (l *lookups) awaitWrites(ctx context.Context, sel Selection) {
	l.mu.Lock()
	var selected []*write
	for key, w := range l.writes {
		if sel.Has(key) {
			selected = append(selected, w)
		}
	}
	l.mu.Unlock()
	for _, w := range selected {
		_ = w.wait(ctx)
	}
}

func (w *write) wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
