package clients

import (
	"context"
	"sync"
	"time"
)

// A Clock knows when each block came.
type Clock struct {
	height func() int64

	mu   sync.Mutex
	tip  int64
	came map[int64]time.Time
}

// NewClock makes the clock of a chain, whose newest block height returns.
func NewClock(height func() int64) *Clock {
	return &Clock{height: height, tip: height(), came: map[int64]time.Time{}}
}

// Watch looks for new blocks until ctx ends.
func (c *Clock) Watch(ctx context.Context) {
	for ctx.Err() == nil {
		if h := c.height(); h != c.Tip() {
			c.mu.Lock()
			c.tip, c.came[h] = h, time.Now()
			c.mu.Unlock()
		}
		time.Sleep(time.Millisecond)
	}
}

// Tip is the newest block.
func (c *Clock) Tip() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tip
}

// At is when a block came.
func (c *Clock) At(height int64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.came[height]
}

// Wait returns when a block has come, with its height or a later one's.
func (c *Clock) Wait(ctx context.Context, height int64) int64 {
	for ctx.Err() == nil && c.Tip() < height {
		time.Sleep(time.Millisecond)
	}
	return c.Tip()
}
