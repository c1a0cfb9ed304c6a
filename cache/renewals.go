package cache

import (
	"maps"
	"sync"
)

// A Renewal is an entry that another replica has settled, as its message to all says it.
type Renewal struct {
	Height int64
	ETag   string
	Whole  bool // it has the content, too; without it the content at hand has to be the same
	Size   int  // bytes that it holds

	// Read gives the entry. have is one of the key, whose content is used where it is the
	// same. It gives nil for what cannot be read, or that no replica of ours has sent.
	Read func(have *Entry) *Entry
}

// renewalsShare is the part of memory that renewals take besides it, at most.
const renewalsShare = 32

// renews tells whether it is newer than an entry, nil for none, and whether it has all that is
// needed to replace that.
func (r *Renewal) renews(e *Entry) (newer, whole bool) {
	if e == nil {
		return r.Whole, r.Whole
	}
	return r.Height > e.Height, r.Whole || r.ETag == e.ETag
}

// renewals are those of keys that are in use here, until a request for these comes. They are
// read only then: that is when it is known how high a block can be. Where there are too many
// the oldest go, and the shared store is asked as if they had not come.
type renewals struct {
	mu             sync.Mutex
	most           int // bytes of one of the two
	held           int // bytes of the newer ones
	newer, earlier map[string]Renewal
}

func newRenewals(bytes int64) *renewals {
	return &renewals{most: int(bytes / 2), newer: map[string]Renewal{}}
}

func (r *renewals) put(key string, renewal Renewal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := renewal.Size + overhead
	if r.held+size > r.most {
		r.earlier, r.newer, r.held = r.newer, map[string]Renewal{}, 0
	}
	if old, ok := r.newer[key]; ok {
		r.held -= old.Size + overhead
	}
	if size <= r.most {
		r.newer[key], r.held = renewal, r.held+size
	}
}

// take removes and gives the renewal of a key. One that lacks the content is left, for a flight
// to drop.
func (r *renewals) take(key string, have *Entry) (renewal Renewal, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	renewal, ok = r.get(key)
	if !ok {
		return renewal, false
	}
	newer, whole := renewal.renews(have)
	if !newer || whole {
		r.remove(key)
	}
	return renewal, newer && whole
}

// drop removes the renewal of a key, and tells whether there was one.
func (r *renewals) drop(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.get(key)
	r.remove(key)
	return ok
}

// get and remove are called with the lock.
func (r *renewals) get(key string) (renewal Renewal, ok bool) {
	if renewal, ok = r.newer[key]; !ok {
		renewal, ok = r.earlier[key]
	}
	return renewal, ok
}

func (r *renewals) remove(key string) {
	if renewal, ok := r.newer[key]; ok {
		r.held -= renewal.Size + overhead
	}
	delete(r.newer, key)
	delete(r.earlier, key)
}

// purge removes those of the selected keys.
func (r *renewals) purge(sel Selection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.earlier, func(key string, _ Renewal) bool { return sel.Has(key) })
	maps.DeleteFunc(r.newer, func(key string, renewal Renewal) (meant bool) {
		if meant = sel.Has(key); meant {
			r.held -= renewal.Size + overhead
		}
		return meant
	})
}

// renew takes over what another replica has told of a key since the entry at hand, and
// gives the slot that memory has then.
func (r *request) renew(at *slot) *slot {
	if !r.ch.shares(&r.q) {
		return at
	}
	told, ok := r.ch.waiters.renewals.take(r.q.Key, at.known())
	if !ok || !r.q.requires().Believes(told.Height) {
		return at
	}
	e := told.Read(at.known())
	if e == nil || e.Height != told.Height {
		return at
	}
	r.taken(e, true, "")
	return r.ch.memory.put(&r.q, e)
}
