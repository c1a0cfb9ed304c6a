package cache

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/tipcache/tipcache/cache/ahead"
)

// A record holds what is in progress for a key in the shared store and at the origin, and what its next lookup must know. It exists
// while one of its fields is set. Hits and the last failure belong to the entry in memory (slot), so that a hit needs no record.
//
// A flight answers before it writes to the shared store, which has the old entry until the write ends. Therefore a caller
// reads the store only if no flight, write or other read of the key is in progress, a read overtaken by a flight is discarded, and
// the next flight waits for the write of the previous one.
type record struct {
	flight    *flight // the lookup in progress; nil for none
	reading   bool    // a caller reads the shared store
	overtaken bool    // a flight began during that read
	write     *write  // of the last flight to the shared store; nil once it is done

	woken   chan bool // wakes the flight that waits for another replica: whether to read the shared store again; nil if it does not
	renewal *Renewal  // announced by another replica since the entry in memory

	streak *ahead.Streak[*request] // decides whether the key is read ahead
}

// A write is a write to the shared store.
type write struct {
	done chan struct{}
	err  error // valid after done is closed
}

func (w *write) wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isActive reports whether a flight or a read of the shared store is in progress.
func (r *record) isActive() bool { return r.flight != nil || r.reading }

// keys holds the records of the keys of a space. Its methods for messages of other replicas are in subscriber.go.
type keys struct {
	seed   maphash.Seed
	shards [keyShards]keyShard

	mostRenewed int64 // maximum bytes of renewals
	renewed     atomic.Int64
}

const keyShards = 64

type keyShard struct {
	mu      sync.Mutex
	records map[string]record
	changed record // while mu is held: the record that a function changes; a local variable would escape to the heap
}

func newKeys(mostRenewed int64) *keys {
	k := &keys{seed: maphash.MakeSeed(), mostRenewed: mostRenewed}
	for i := range k.shards {
		k.shards[i].records = map[string]record{}
	}
	return k
}

// change lets do change the record of a key, which is zero if there is none. do must not block.
func (k *keys) change(key string, do func(r *record)) {
	s := k.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = s.records[key]
	do(&s.changed)
	s.set(key, s.changed)
	s.changed = record{}
}

func (k *keys) shardOf(key string) *keyShard {
	return &k.shards[maphash.String(k.seed, key)%keyShards]
}

func (s *keyShard) set(key string, r record) {
	if r == (record{}) {
		delete(s.records, key)
	} else {
		s.records[key] = r
	}
}

// get returns the record of a key. Its streak changes under the lock of the shard, so only change and changeAll may look at that.
func (k *keys) get(key string) record {
	s := k.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[key]
}

// changeAll lets do change each record.
func (k *keys) changeAll(do func(key string, r *record)) {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		for key, r := range s.records {
			s.changed = r
			if do(key, &s.changed); s.changed != r {
				s.set(key, s.changed)
			}
		}
		s.changed = record{}
		s.mu.Unlock()
	}
}

// beginFlight begins the flight of a key.
func (k *keys) beginFlight(key string, f *flight) {
	k.change(key, func(r *record) { r.flight, r.overtaken = f, r.reading })
}

func (k *keys) endFlight(key string) {
	k.change(key, func(r *record) { r.flight = nil })
}

// beginRead begins a read of the shared store. It returns false if another operation on the key is in progress.
func (k *keys) beginRead(key string) (ok bool) {
	k.change(key, func(r *record) {
		ok = !r.isActive() && r.write == nil
		r.reading = r.reading || ok
	})
	return ok
}

// endRead ends a read and calls keep unless a flight has begun meanwhile. No flight begins until keep returns.
func (k *keys) endRead(key string, keep func()) {
	k.change(key, func(r *record) {
		if !r.overtaken {
			keep()
		}
		r.reading, r.overtaken = false, false
	})
}

// beginWrite begins a write by a flight of the key.
func (k *keys) beginWrite(key string) *write {
	w := &write{done: make(chan struct{})}
	k.change(key, func(r *record) { r.write = w })
	return w
}

func (k *keys) endWrite(key string, w *write, err error) {
	k.change(key, func(r *record) {
		if r.write == w {
			r.write = nil
		}
	})
	w.err = err
	close(w.done)
}

// awaitWrite waits for the previous flight's write, if it is in progress. It returns the error of the write or of ctx.
func (k *keys) awaitWrite(ctx context.Context, key string) error {
	if w := k.get(key).write; w != nil {
		return w.wait(ctx)
	}
	return nil
}

// awaitWrites waits for the writes of the selected keys that are in progress.
func (k *keys) awaitWrites(ctx context.Context, sel Selection) {
	var writes []*write
	k.changeAll(func(key string, r *record) {
		if r.write != nil && sel.Has(key) {
			writes = append(writes, r.write)
		}
	})
	for _, w := range writes {
		_ = w.wait(ctx)
	}
}

// Change implements [ahead.Records].
func (k *keys) Change(key string, do func(*ahead.Streak[*request]) *ahead.Streak[*request]) {
	k.change(key, func(r *record) { r.streak = do(r.streak) })
}

// ChangeAll implements [ahead.Records].
func (k *keys) ChangeAll(do func(string, *ahead.Streak[*request]) *ahead.Streak[*request]) {
	k.changeAll(func(key string, r *record) {
		if r.streak != nil {
			r.streak = do(key, r.streak)
		}
	})
}
