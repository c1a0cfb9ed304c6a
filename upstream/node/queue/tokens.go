package queue

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Tokens are handed out at a rate. Where several clients wait for the next one, they
// take turns (lines.go). They are safe for concurrent use.
type Tokens struct {
	patience time.Duration

	mu     sync.Mutex
	bucket *rate.Limiter
	queue  queue
	armed  bool // a timer is set for the next token
}

// NewTokens returns a full bucket of burst tokens, which fills again at so many a
// second. A request waits for one for as long as the patience.
func NewTokens(perSecond float64, burst int, patience time.Duration) *Tokens {
	return &Tokens{patience: patience, bucket: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// Acquire waits for a token on behalf of a client. The error is ErrLate, at once
// where no token can come in time, or the context's.
func (t *Tokens) Acquire(ctx context.Context, client string) error {
	t.mu.Lock()
	if t.delay(t.queue.of(client)+1) > t.patience {
		t.mu.Unlock()
		return ErrLate
	}
	w := t.queue.push(Request{Client: client})
	t.grant()
	t.mu.Unlock()
	return t.queue.wait(ctx, &t.mu, w, t.patience)
}

// delay is how long it takes at least until so many more have come. Call with mu held.
func (t *Tokens) delay(tokens int) time.Duration {
	missing := float64(tokens) - t.bucket.Tokens()
	return time.Duration(max(0, missing) / float64(t.bucket.Limit()) * float64(time.Second))
}

// grant hands out the tokens of now, and sets a timer for a next one. Call with mu held.
func (t *Tokens) grant() {
	for t.queue.waits.requests() > 0 {
		if !t.bucket.Allow() {
			t.arm()
			return
		}
		t.queue.grant(t.queue.next(true))
	}
}

func (t *Tokens) arm() {
	if t.armed {
		return
	}
	t.armed = true
	time.AfterFunc(t.delay(1), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.armed = false
		t.grant()
	})
}
