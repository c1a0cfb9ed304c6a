package queue

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Tokens hands out tokens at a rate. Clients that wait for a token take turns (queue.go). It is safe for concurrent use.
type Tokens struct {
	patience time.Duration

	mu     sync.Mutex
	bucket *rate.Limiter
	queue  queue
	armed  bool // a timer runs for the next token
}

// NewTokens returns a full bucket of burst tokens, which is refilled with perSecond tokens per second. A request waits
// at most patience for a token.
func NewTokens(perSecond float64, burst int, patience time.Duration) *Tokens {
	return &Tokens{patience: patience, bucket: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// Acquire waits for a token for a client. The error is ErrLate or ctx.Err(). It returns ErrLate at once if no token can
// become available in time.
func (t *Tokens) Acquire(ctx context.Context, client string) error {
	t.mu.Lock()
	if t.delay(t.queue.waiting(client)+1) > t.patience {
		t.mu.Unlock()
		return ErrLate
	}
	w := t.queue.push(Request{Client: client})
	t.grant()
	return t.queue.wait(ctx, &t.mu, w, t.patience) // unlocks mu
}

// delay returns the minimum time until a number of tokens is available. The caller must hold mu.
func (t *Tokens) delay(tokens int) time.Duration {
	missing := float64(tokens) - t.bucket.Tokens()
	return time.Duration(max(0, missing) / float64(t.bucket.Limit()) * float64(time.Second))
}

// grant hands out the available tokens and sets a timer for the next one. The caller must hold mu.
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
