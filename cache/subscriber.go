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

// renews tells whether it is newer than an entry, nil for none, and whether it has all that is
// needed to replace that.
func (r *Renewal) renews(e *Entry) (newer, whole bool) {
	if e == nil {
		return r.Whole, r.Whole
	}
	return r.Height > e.Height, r.Whole || r.ETag == e.ETag
}

// subscriber takes what other replicas tell. It wakes the flights that wait for their leases. A flight is the
// only one of its key, so a key has one channel at most, which carries whether to ask the shared store again.
//
// It keeps the renewals of keys that are in use here, until a request for these comes. They are read only
// then: that is when it is known how high a block can be. Where there are too many the oldest go, and the
// shared store is asked as if they had not come.
type subscriber struct {
	memory *memory
	most   int // bytes of the newer renewals, and of the earlier ones

	mu             sync.Mutex
	waiting        map[string]chan bool
	held           int // bytes of the newer renewals
	newer, earlier map[string]Renewal
}

// renewalsShare is the part of memory that renewals take besides it, at most.
const renewalsShare = 32

func newSubscriber(m *memory, bytes int64) *subscriber {
	return &subscriber{memory: m, most: int(bytes / renewalsShare / 2), waiting: map[string]chan bool{}, newer: map[string]Renewal{}}
}

func (s *subscriber) join(key string) <-chan bool {
	woken := make(chan bool, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[key] = woken
	return woken
}

func (s *subscriber) leave(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, key)
}

// Notify implements [Subscriber].
func (s *subscriber) Notify(key string, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	notify(s.waiting[key], again)
}

// Renewed implements [Subscriber]. What memory has no entry of, and no flight waits for, is
// not kept: no caller asks for it here.
func (s *subscriber) Renewed(key string, renewal Renewal) {
	at := s.memory.peek(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	woken := s.waiting[key]
	if newer, _ := renewal.renews(at.known()); newer && (at != nil || woken != nil) {
		s.keep(key, renewal)
	}
	notify(woken, true)
}

// NotifyAll implements [Subscriber].
func (s *subscriber) NotifyAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, woken := range s.waiting {
		notify(woken, true)
	}
}

// Purged implements [Subscriber].
func (s *subscriber) Purged(sel Selection) { s.purge(sel) }

// purge removes the selected entries from memory, with their renewals, and counts them.
func (s *subscriber) purge(sel Selection) (n int) {
	s.mu.Lock()
	maps.DeleteFunc(s.earlier, func(key string, _ Renewal) bool { return sel.Has(key) })
	for key := range s.newer {
		if sel.Has(key) {
			s.remove(key)
		}
	}
	s.mu.Unlock()
	return s.memory.purge(sel)
}

// notify does not wait: a flight that has a message will ask anyway.
func notify(woken chan<- bool, again bool) {
	select {
	case woken <- again:
	default:
	}
}

// take removes and gives the renewal of a key. One that lacks the content is left, for a flight
// to drop.
func (s *subscriber) take(key string, have *Entry) (renewal Renewal, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	renewal, ok = s.get(key)
	if !ok {
		return renewal, false
	}
	newer, whole := renewal.renews(have)
	if !newer || whole {
		s.remove(key)
	}
	return renewal, newer && whole
}

// drop removes the renewal of a key, and tells whether there was one.
func (s *subscriber) drop(key string) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok = s.get(key); ok {
		s.remove(key)
	}
	return ok
}

// keep, get and remove are called with the lock.
func (s *subscriber) keep(key string, renewal Renewal) {
	size := renewal.Size + overhead
	if s.held+size > s.most {
		s.earlier, s.newer, s.held = s.newer, map[string]Renewal{}, 0
	}
	if old, ok := s.newer[key]; ok {
		s.held -= old.Size + overhead
	}
	if size <= s.most {
		s.newer[key], s.held = renewal, s.held+size
	}
}

func (s *subscriber) get(key string) (renewal Renewal, ok bool) {
	if renewal, ok = s.newer[key]; !ok {
		renewal, ok = s.earlier[key]
	}
	return renewal, ok
}

func (s *subscriber) remove(key string) {
	if renewal, ok := s.newer[key]; ok {
		s.held -= renewal.Size + overhead
	}
	delete(s.newer, key)
	delete(s.earlier, key)
}
