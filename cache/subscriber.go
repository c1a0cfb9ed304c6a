package cache

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

func (r *Renewal) weight() int64 { return int64(r.Size + overhead) }

// subscriber receives other replicas' messages and wakes the flights that wait for their leases.
//
// It stores the renewals of keys in use in their records until the next request for the key, which has the MaxHeight to judge a
// renewal by. If there are too many, all are dropped, and the shared store is read instead.
type subscriber struct {
	memory memory
	keys   *keys
}

// Notify implements [Subscriber].
func (s *subscriber) Notify(key string, again bool) {
	s.keys.change(key, func(r *record) { r.wake(again) })
}

// wake does not block: a flight with a pending message reads again anyway.
func (r *record) wake(again bool) {
	select {
	case r.woken <- again:
	default:
	}
}

// Renewed implements [Subscriber]. It keeps the renewal of a key that is in memory or that a flight waits for, if the renewal
// can replace the entry. Otherwise a woken flight reads the shared store.
func (s *subscriber) Renewed(key string, renewal Renewal) {
	at, full := s.memory.peek(key), false
	s.keys.change(key, func(r *record) {
		if (at != nil || r.woken != nil) && renewal.replaces(at.known()) {
			full = !s.keys.hold(r, &renewal)
		}
		r.wake(true)
	})
	if full {
		s.keys.changeAll(func(_ string, r *record) { s.keys.hold(r, nil) })
	}
}

// NotifyAll implements [Subscriber].
func (s *subscriber) NotifyAll() {
	s.keys.changeAll(func(_ string, r *record) { r.wake(true) })
}

// Purge implements [Subscriber]. It removes the renewals of the selected entries as well.
func (s *subscriber) Purge(sel Selection) (n int) {
	s.keys.changeAll(func(key string, r *record) {
		if r.renewal != nil && sel.Has(key) {
			s.keys.hold(r, nil)
		}
	})
	return s.memory.purge(sel)
}

// hold replaces the renewal of a record; nil removes it. It reports whether the renewals fit into their memory.
func (k *keys) hold(r *record, renewal *Renewal) (fits bool) {
	var more int64
	if r.renewal != nil {
		more -= r.renewal.weight()
	}
	if renewal != nil {
		more += renewal.weight()
	}
	r.renewal = renewal
	return k.renewed.Add(more) <= k.mostRenewed
}

// takeRenewal removes and returns the renewal of a key. It returns nil if there is none that can replace have.
func (k *keys) takeRenewal(key string, have *Entry) (renewal *Renewal) {
	k.change(key, func(r *record) {
		renewal = r.renewal
		k.hold(r, nil)
	})
	if renewal == nil || !renewal.replaces(have) {
		return nil
	}
	return renewal
}

// listen returns a channel that receives the messages about a key, until leave.
func (k *keys) listen(key string) <-chan bool {
	woken := make(chan bool, 1)
	k.change(key, func(r *record) { r.woken = woken })
	return woken
}

func (k *keys) leave(key string) {
	k.change(key, func(r *record) { r.woken = nil })
}
