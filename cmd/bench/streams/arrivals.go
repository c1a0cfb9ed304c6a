package streams

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// arrivals are what followers of answers that every block changes have got.
type arrivals struct {
	followers int

	mu                        sync.Mutex
	made                      map[int64]time.Time // blocks, and when the node had them
	reached                   map[int64]int       // how many have an answer of a block or a later one
	late                      []float64           // milliseconds
	size                      int                 // bytes of an answer
	backward, skipped, failed int
	err                       error // the first
}

// anyBlock is before all others.
const anyBlock = 0

func newArrivals(followers int) *arrivals {
	return &arrivals{followers: followers, made: map[int64]time.Time{anyBlock: {}}, reached: map[int64]int{}}
}

// note takes down that a follower that had the answer of a block, 0 for none, has that of another.
func (a *arrivals) note(had, height int64, size int) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.size = size
	switch {
	case height < had:
		a.backward++
	case had > 0 && height > had+1:
		a.skipped++
	}
	for h := had + 1; had > 0 && h <= height; h++ {
		a.reached[h]++
	}
	if had > 0 {
		if made, ok := a.made[height]; ok {
			a.late = append(a.late, figures.Milliseconds(now.Sub(made)))
		}
		return
	}
	for h := range a.made {
		if h <= height {
			a.reached[h]++
		}
	}
}

// fail counts what failed; with an error nothing more will come.
func (a *arrivals) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed++; a.err == nil {
		a.err = err
	}
}

// advance makes so many blocks, and waits until each is with all followers, and for some time
// at least.
func (a *arrivals) advance(ctx context.Context, d *devnet.Devnet, blocks int, least time.Duration) {
	for range blocks {
		next := time.Now().Add(least)
		a.mu.Lock()
		a.made[d.Height()+1] = time.Now()
		a.mu.Unlock()
		d.Advance(1)
		a.reach(ctx, d.Height())
		rig.Pause(ctx, time.Until(next))
	}
	rig.Check(ctx.Err())
}

// row has how late blocks were, p50, p99 and most, between other cells.
func (a *arrivals) row(first []any, last ...any) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return figures.Row(slices.Concat(first, []any{figures.Median(a.late), figures.Quantile(a.late, 0.99), figures.Quantile(a.late, 1)}, last)...)
}

// reach waits until a block, or a later one, is with all followers.
func (a *arrivals) reach(ctx context.Context, height int64) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		a.mu.Lock()
		n, err := a.reached[height], a.err
		a.mu.Unlock()
		if err == nil && n < a.followers && !rig.Pause(ctx, time.Millisecond) {
			err = ctx.Err()
		}
		if err != nil {
			rig.Check(fmt.Errorf("%d of %d followers have block %d: %w", n, a.followers, height, err))
		}
		if n == a.followers {
			return
		}
	}
}

// forget begins anew.
func (a *arrivals) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late, a.backward, a.skipped, a.failed = nil, 0, 0, 0
}
