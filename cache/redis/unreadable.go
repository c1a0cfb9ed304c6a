package redis

import (
	"errors"
	"time"
)

// unreadable tells of an entry that cannot be decoded. While replicas with another
// seal key, or none, write to the same store, every entry of theirs is one.
func (s *Store) unreadable(at string, err error) {
	kind := s.countUnreadable(err)
	s.untold[kind].Add(1)
	s.reminders[kind].Do(func() {
		s.o.Logger.Warn("corrupt entry in the shared store", "key", at, "error", err, "omitted", s.untold[kind].Swap(0)-1)
	})
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
