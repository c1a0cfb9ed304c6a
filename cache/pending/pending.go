// Package pending coordinates operations on a key below memory: flights, and reads and writes of the shared store.
package pending

import (
	"context"
	"sync"
)

// Keys holds the keys with operations in progress. The zero Keys has none.
//
// A flight returns its answer before it is in the shared store, and memory may have evicted it again. Until then
// the shared store has an older one. Therefore the store is not read while a flight is in progress, a read
// overtaken by a flight is discarded, and the next flight waits for the previous one's write.
type Keys struct {
	mu    sync.Mutex
	byKey map[string]state
}

// state is the operations in progress for a key.
type state struct {
	flight    bool
	read      bool // of the shared store
	overtaken bool // a flight began during the read
	write     *write
}

// write is a write to the shared store.
type write struct {
	done chan struct{}
	err  error // valid after done is closed
}

// change replaces the state of a key and returns the previous one.
func (k *Keys) change(key string, next func(s state) state) (before state) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before = k.byKey[key]
	if after := next(before); after == (state{}) {
		delete(k.byKey, key)
	} else if k.byKey == nil {
		k.byKey = map[string]state{key: after}
	} else {
		k.byKey[key] = after
	}
	return before
}

func (k *Keys) state(key string) state {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byKey[key]
}

// BeginFlight begins the flight of a key.
func (k *Keys) BeginFlight(key string) {
	k.change(key, func(s state) state { return state{flight: true, read: s.read, overtaken: s.read, write: s.write} })
}

// EndFlight ends the flight of a key.
func (k *Keys) EndFlight(key string) {
	k.change(key, func(s state) state { s.flight = false; return s })
}

// UnderWay reports whether a flight or read of the key is in progress.
func (k *Keys) UnderWay(key string) bool { s := k.state(key); return s.read || s.flight }

// BeginRead begins a read of the shared store. It returns false if another operation on the key is in progress.
func (k *Keys) BeginRead(key string) bool {
	before := k.change(key, func(s state) state { s.read = s.read || s == (state{}); return s })
	return before == (state{})
}

// EndRead ends a read and calls keep unless a flight has begun meanwhile. No flight begins until keep returns.
func (k *Keys) EndRead(key string, keep func()) {
	k.change(key, func(s state) state {
		if !s.overtaken {
			keep()
		}
		return state{flight: s.flight, write: s.write}
	})
}

// BeginWrite begins a write by a flight of the key. The returned function ends it.
func (k *Keys) BeginWrite(key string) (end func(error)) {
	w := &write{done: make(chan struct{})}
	k.change(key, func(s state) state { s.write = w; return s })
	return func(err error) {
		k.change(key, func(s state) state {
			if s.write == w {
				s.write = nil
			}
			return s
		})
		w.err = err
		close(w.done)
	}
}

// AwaitWrite waits for the previous flight's write, if it is in progress. It returns the error of the write or of ctx.
func (k *Keys) AwaitWrite(ctx context.Context, key string) error {
	if w := k.state(key).write; w != nil {
		return w.wait(ctx)
	}
	return nil
}

// AwaitWrites waits for the writes of the selected keys that are in progress.
func (k *Keys) AwaitWrites(ctx context.Context, selected func(key string) bool) {
	k.mu.Lock()
	var writes []*write
	for key, s := range k.byKey {
		if s.write != nil && selected(key) {
			writes = append(writes, s.write)
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
