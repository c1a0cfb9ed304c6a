package metadata

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// How long the provider is left alone after it answered 429.
const (
	firstPause = time.Second     // if it did not say how long
	pauseRatio = 1.5             // from one 429 to the next
	pauseSteps = 4               // of that ratio at most: 5 s and a bit
	maxPause   = 5 * time.Minute // whatever it says
)

// A pause is a time in which the provider is not asked.
type pause struct {
	mu    sync.Mutex
	until time.Time
	row   int // pauses since the last success
}

func (p *pause) active(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Before(p.until)
}

// begin starts a pause as long as the error says, else longer than the one
// before. Requests under way together count once.
func (p *pause) begin(now time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var length time.Duration
	if e, ok := errors.AsType[*upstream.Error](err); ok {
		length = min(e.RetryAfter, maxPause)
	}
	if length == 0 && now.Before(p.until) {
		return
	}
	if length == 0 {
		length = time.Duration(float64(firstPause) * math.Pow(pauseRatio, float64(min(p.row, pauseSteps))))
		p.row++
	}
	if until := now.Add(length); until.After(p.until) {
		p.until = until
	}
}

// end is called on success: the next pause is a first one again.
func (p *pause) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.row = 0
}
