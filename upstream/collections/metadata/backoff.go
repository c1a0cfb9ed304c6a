package metadata

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// How long the provider is not asked after it answered 429.
const (
	firstBackoff = time.Second     // if it did not say how long
	backoffRatio = 1.5             // from one 429 to the next
	backoffSteps = 4               // of that ratio at most: 5 s and a bit
	maxBackoff   = 5 * time.Minute // whatever it says
)

// A backoff is a time in which the provider is not asked.
type backoff struct {
	mu    sync.Mutex
	until time.Time
	row   int // backoffs since the last success
}

func (b *backoff) active(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Before(b.until)
}

// begin starts a backoff as long as the error says, else longer than the one
// before. Requests under way together count once.
func (b *backoff) begin(now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var length time.Duration
	if e, ok := errors.AsType[*upstream.Error](err); ok {
		length = min(e.RetryAfter, maxBackoff)
	}
	if length == 0 && now.Before(b.until) {
		return
	}
	if length == 0 {
		length = time.Duration(float64(firstBackoff) * math.Pow(backoffRatio, float64(min(b.row, backoffSteps))))
		b.row++
	}
	if until := now.Add(length); until.After(b.until) {
		b.until = until
	}
}

// end is called on success: the next backoff is a first one again.
func (b *backoff) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.row = 0
}
