// Package pending keeps apart what is under way for a key below memory: flights,
// reads of the shared store and writes to it.
package pending

import (
	"context"
	"sync"
)

// Keys are the keys that are being looked up below memory. The zero Keys has none.
//
// A flight gives its answer before the shared store has it, and memory may have
// dropped that again: what the shared store has until then is older. So the
// store is not read for a key beside its flight, a read that a flight has
// overtaken found nothing, and the next flight waits for the write of the one
// before.
type Keys struct {
	mu    sync.Mutex
	byKey map[string]state
}

// state is what is under way for a key.
type state struct {
	flight    bool
	read      bool // of the shared store
	overtaken bool // a flight has begun since the read has
	write     *write
}

// write is an answer on its way to the shared store.
type write struct {
	done chan struct{}
	err  error // valid once done is closed
}

// change has the state of a key become another one, and gives the one before.
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

// state is that of a key.
func (k *Keys) state(key string) state {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byKey[key]
}

// BeginFlight is called by the flight of a key.
func (k *Keys) BeginFlight(key string) {
	k.change(key, func(s state) state { return state{flight: true, read: s.read, overtaken: s.read, write: s.write} })
}

// EndFlight ends it.
func (k *Keys) EndFlight(key string) {
	k.change(key, func(s state) state { s.flight = false; return s })
}

// UnderWay tells whether the key is being looked up.
func (k *Keys) UnderWay(key string) bool { s := k.state(key); return s.read || s.flight }

// BeginRead tells whether the shared store may be read: the key is looked up by
// no other caller.
func (k *Keys) BeginRead(key string) bool {
	before := k.change(key, func(s state) state { s.read = s.read || s == (state{}); return s })
	return before == (state{})
}

// EndRead calls keep unless a flight has begun meanwhile. None begins before
// keep has returned.
func (k *Keys) EndRead(key string, keep func()) {
	k.change(key, func(s state) state {
		if !s.overtaken {
			keep()
		}
		return state{flight: s.flight, write: s.write}
	})
}

// BeginWrite is called by a flight of the key. The function it returns ends the
// write.
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

// AwaitWrite waits for the write of the flight before, if it is under way, and
// gives what it failed with.
func (k *Keys) AwaitWrite(ctx context.Context, key string) error {
	if w := k.state(key).write; w != nil {
		return w.wait(ctx)
	}
	return nil
}

// AwaitWrites waits for the writes of the selected keys that are under way.
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
