package redis

import (
	"errors"
	"sync"
	"time"
)

// unreadable tells of an entry that cannot be decoded. While replicas with another
// seal key, or none, write to the same store, that is every one of theirs.
func (s *Store) unreadable(at string, err error) {
	kind := s.countUnreadable(err)
	if due, omitted := s.told[kind].due(); due {
		s.o.Logger.Warn("corrupt entry in the shared store", "key", at, "error", err, "omitted", omitted)
	}
}

func (s *Store) countUnreadable(err error) errorKind {
	kind := corrupt
	if errors.Is(err, errUnsealed) {
		kind = foreign
	}
	s.failed(kind)
	return kind
}

// linesApart is the time between two lines of the log about the same kind of failure.
const linesApart = time.Minute

// A reminder spares the log what it says already.
type reminder struct {
	mu      sync.Mutex
	last    time.Time
	omitted int // lines since then
}

// due says whether a line is due, and how many were left out since the last.
func (r *reminder) due() (due bool, omitted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.last.IsZero() && time.Since(r.last) < linesApart {
		r.omitted++
		return false, 0
	}
	omitted, r.omitted, r.last = r.omitted, 0, time.Now()
	return true, omitted
}
