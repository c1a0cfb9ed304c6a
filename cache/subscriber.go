package cache

import "sync"

// Renewal is an entry that another replica has published, as its message describes it.
type Renewal struct {
	Height int64
	ETag   string
	Whole  bool // the message contains the content; otherwise the known content must be the same
	Size   int  // of the message, in bytes

	// Read returns the entry. have is an entry of the key, whose content is used if it is the same. Read returns
	// nil for messages that are invalid or not signed by a replica.
	Read func(have *Entry) *Entry
}

// replaces reports whether the renewal is newer than an entry (nil for none), and can replace it: because it contains the
// content, or because the content is the same.
func (r *Renewal) replaces(e *Entry) bool {
	if e == nil {
		return r.Whole
	}
	return r.Height > e.Height && (r.Whole || r.ETag == e.ETag)
}

// subscriber receives other replicas' messages and wakes the flights that wait for their leases. A key has at most
// one flight and so at most one channel, which carries whether to read the shared store again.
//
// It stores the renewals of keys in use here until the next request for the key, which has the MaxHeight to judge a
// renewal by. If there are too many, all are dropped, and the shared store is read instead.
type subscriber struct {
	memory *memory
	most   int // maximum bytes of renewals

	mu       sync.Mutex
	waiting  map[string]chan bool
	held     int // bytes of renewals
	renewals map[string]Renewal
}

func newSubscriber(m *memory, bytes int64) *subscriber {
	return &subscriber{memory: m, most: int(bytes / 32), waiting: map[string]chan bool{}, renewals: map[string]Renewal{}}
}

func (s *subscriber) listen(key string) <-chan bool {
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

// Renewed implements [Subscriber]. It keeps the renewal of a key that is in memory or that a flight waits for, if the renewal
// can replace the entry. Otherwise a woken flight reads the shared store.
func (s *subscriber) Renewed(key string, renewal Renewal) {
	at := s.memory.peek(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	woken := s.waiting[key]
	if (at != nil || woken != nil) && renewal.replaces(at.known()) {
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

// Purge implements [Subscriber]. It removes the renewals of the selected entries as well.
func (s *subscriber) Purge(sel Selection) (n int) {
	s.mu.Lock()
	for key := range s.renewals {
		if sel.Has(key) {
			s.remove(key)
		}
	}
	s.mu.Unlock()
	return s.memory.purge(sel)
}

// notify does not block: a flight with a pending message reads again anyway.
func notify(woken chan<- bool, again bool) {
	select {
	case woken <- again:
	default:
	}
}

// take removes and returns the renewal of a key. It returns false if there is none that can replace have.
func (s *subscriber) take(key string, have *Entry) (renewal Renewal, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	renewal, ok = s.renewals[key]
	s.remove(key)
	return renewal, ok && renewal.replaces(have)
}

// keep stores a renewal. The caller of keep and remove must hold mu.
func (s *subscriber) keep(key string, renewal Renewal) {
	s.remove(key)
	size := renewal.weight()
	if s.held+size > s.most {
		clear(s.renewals)
		s.held = 0
	}
	if size <= s.most {
		s.renewals[key], s.held = renewal, s.held+size
	}
}

func (s *subscriber) remove(key string) {
	if renewal, ok := s.renewals[key]; ok {
		s.held -= renewal.weight()
		delete(s.renewals, key)
	}
}

func (r *Renewal) weight() int { return r.Size + overhead }
