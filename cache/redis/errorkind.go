package redis

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream"
)

// errorKind is a kind of failure of the store.
type errorKind int

const (
	timedOut errorKind = iota
	unreachable
	unavailable // not tried, for the breaker is open
	full        // no memory left for writes
	refused     // any other error it answers with
	panicked    // the client did, on what the store answered
	corrupt     // an entry that cannot be decoded
	foreign     // a key that holds something else
	errorKinds  // how many there are
)

// kindNames are those that the metrics have.
var kindNames = [errorKinds]string{"timeout", "unreachable", "unavailable", "full", "refused", "panic", "corrupt", "foreign"}

// kindOf classifies the failure of an operation.
func kindOf(err error) errorKind {
	var slow interface{ Timeout() bool }
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return unavailable
	case errors.Is(err, upstream.ErrPanicked):
		return panicked
	case isReply(err) && strings.HasPrefix(err.Error(), "OOM"):
		return full
	case isReply(err):
		return refused
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, redis.ErrPoolTimeout), errors.As(err, &slow) && slow.Timeout():
		return timedOut
	default:
		return unreachable
	}
}

// refused counts an error that the store has answered one of several operations with.
func (s *Store) refused(err error) {
	s.failed(kindOf(err))
	s.o.Logger.Debug("redis request failed", "error", err)
}

func (s *Store) failed(kind errorKind) { s.errors[kind].Inc() }

// unreadable tells of an entry that cannot be decoded. While replicas with another
// seal key, or none, write to the same store, every entry of theirs is one.
func (s *Store) unreadable(at string, err error) {
	kind := s.countUnreadable(err)
	s.untold[kind].Add(1)
	s.reminders[kind].Do(func() {
		s.o.Logger.Warn("corrupt entry in redis", "key", at, "error", err, "omitted", s.untold[kind].Swap(0)-1)
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
