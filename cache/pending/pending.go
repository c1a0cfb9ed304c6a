// Package pending keeps apart what is under way for a key below memory: flights,
// reads of the shared store and writes to it.
package pending

import (
	"context"
	"sync"
)

// Keys are the keys that are being looked up below memory.
//
// A flight gives its answer before the shared store has it, and memory may have
// dropped that again: what the shared store has until then is older. So the
// store is not read for a key beside its flight, a read that a flight has
// overtaken found nothing, and the next flight waits for the write of the one
// before.
type Keys struct {
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

// New returns keys none of which is looked up.
func New() *Keys {
	return &Keys{flights: map[string]bool{}, reads: map[string]bool{}, writes: map[string]*write{}}
}

// BeginFlight is called by the flight of a key.
func (k *Keys) BeginFlight(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flights[key] = true
	if _, beside := k.reads[key]; beside {
		k.reads[key] = false
	}
}

// UnderWay tells whether the key is being looked up.
func (k *Keys) UnderWay(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, read := k.reads[key]
	return read || k.flights[key]
}

// EndFlight ends it.
func (k *Keys) EndFlight(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.flights, key)
}

// BeginRead tells whether the shared store may be read: the key is looked up by
// no other caller.
func (k *Keys) BeginRead(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, beside := k.reads[key]; beside || k.flights[key] || k.writes[key] != nil {
		return false
	}
	k.reads[key] = true
	return true
}

// EndRead calls keep unless a flight has begun meanwhile. None begins before
// keep has returned.
func (k *Keys) EndRead(key string, keep func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reads[key] {
		keep()
	}
	delete(k.reads, key)
}

// BeginWrite is called by a flight of the key. The function it returns ends the
// write.
func (k *Keys) BeginWrite(key string) (end func(error)) {
	w := &write{done: make(chan struct{})}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes[key] = w
	return func(err error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.writes[key] == w {
			delete(k.writes, key)
		}
		w.err = err
		close(w.done)
	}
}

// AwaitWrite waits for the write of the flight before, if it is under way, and
// gives what it failed with.
func (k *Keys) AwaitWrite(ctx context.Context, key string) error {
	k.mu.Lock()
	w := k.writes[key]
	k.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.wait(ctx)
}

// AwaitWrites waits for the writes of the selected keys that are under way.
func (k *Keys) AwaitWrites(ctx context.Context, selected func(key string) bool) {
	k.mu.Lock()
	var writes []*write
	for key, w := range k.writes {
		if selected(key) {
			writes = append(writes, w)
		}
	}
	k.mu.Unlock()
	for _, w := range writes {
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
