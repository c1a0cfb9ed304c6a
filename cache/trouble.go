package cache

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// trouble is a kind of failure of the shared store.
type trouble int

const (
	timedOut trouble = iota
	unreachable
	unavailable // not tried, for the breaker is open
	full        // no memory left for writes
	refused     // any other error it answers with
	corrupt     // an entry that cannot be decoded
	foreign     // a key that holds something else
	troubles    // how many there are
)

func (t trouble) String() string {
	return [...]string{"timeout", "unreachable", "unavailable", "full", "refused", "corrupt", "foreign"}[t]
}

// troubleOf classifies the failure of an operation.
func troubleOf(err error) trouble {
	var slow interface{ Timeout() bool }
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return unavailable
	case isReply(err) && strings.HasPrefix(err.Error(), "OOM"):
		return full
	case isReply(err):
		return refused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return timedOut
	default:
		return unreachable
	}
}

// isReply tells an error that the store has answered from silence. However
// unwelcome, an answer shows that the store lives and costs nobody a timeout.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
