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

// An errorKind is a kind of failure of Redis.
type errorKind int

const (
	timedOut errorKind = iota
	unreachable
	unavailable // not sent: the breaker is open
	full        // no memory for writes
	refused     // other error replies
	panicked    // the client library panicked on a reply
	corrupt     // an entry cannot be decoded
	foreign     // a value without our signature; when acquiring a lease, also a key of another type
	errorKinds  // number of kinds
)

// kindNames are the labels in metrics.
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

// reportFailure counts and logs the failure of an operation, or an error reply to one of several commands.
func (s *Store) reportFailure(err error) {
	s.count(kindOf(err))
	s.o.Logger.Debug("redis request failed", "error", err)
}

func (s *Store) count(kind errorKind) { s.errors[kind].Inc() }

// reportCorrupt counts an entry, lease or agreement that cannot be decoded or is not signed with our key, and logs it
// at most once per logInterval and kind.
func (s *Store) reportCorrupt(at string, err error) {
	kind := s.countCorrupt(err)
	s.suppressed[kind].Add(1)
	s.reminders[kind].Do(func() {
		s.o.Logger.Warn("unusable value in redis", "key", at, "error", err, "omitted", s.suppressed[kind].Swap(0)-1)
	})
}

func (s *Store) countCorrupt(err error) errorKind {
	kind := corrupt
	if errors.Is(err, errForeign) {
		kind = foreign
	}
	s.count(kind)
	return kind
}

// logInterval is the minimum time between two log lines about the same kind of failure.
const logInterval = time.Minute
