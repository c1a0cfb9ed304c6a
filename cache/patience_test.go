package cache_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// behind is a query for an entry that is five blocks old, which its policy would
// still serve.
var behind = cache.Query{Key: "k", Policy: live, Tip: 105}

// timed asks, and holds the answer and the time that it took against what is wanted.
func timed(t *testing.T, c *cache.Cache, q cache.Query, origin cache.Origin, want cache.Outcome, height int64, after time.Duration) {
	t.Helper()
	began := time.Now()
	res := mustGet(t, c, q, origin)
	if took := time.Since(began).Truncate(time.Millisecond); res.Outcome != want || res.Entry.Height != height || took != after {
		t.Errorf("%v at %d after %v, want %v at %d after %v", res.Outcome, res.Entry.Height, took, want, height, after)
	}
}

// old has an entry at block 100 in memory.
func old(t *testing.T, o cache.Options) *cache.Cache {
	t.Helper()
	c := newCache(t, o)
	mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))
	return c
}

// tire has the cache find its origin slow.
func tire(t *testing.T, c *cache.Cache) {
	t.Helper()
	var calls atomic.Int64
	for h := range int64(20) {
		mustGet(t, c, cache.Query{Key: "slow", Policy: live, Tip: h, MinHeight: h}, slow(&calls, time.Second, answer(h, page)))
	}
}

func TestFirstRequestAfterBlockGetsItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := old(t, cache.Options{})
		var calls atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				timed(t, c, behind, slow(&calls, 20*time.Millisecond, answer(105, page)), cache.Miss, 105, 20*time.Millisecond)
			})
		}
		all.Wait()
		if calls.Load() != 1 {
			t.Errorf("%d calls, want 1", calls.Load())
		}
	})
}

func TestStaleEntryServedAfterWaitAndThenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := old(t, cache.Options{Patience: 80 * time.Millisecond})
		var calls atomic.Int64
		origin := slow(&calls, time.Second, answer(105, page))
		timed(t, c, behind, origin, cache.StaleHit, 100, 80*time.Millisecond)
		timed(t, c, behind, origin, cache.StaleHit, 100, 0)
		time.Sleep(time.Second)
		timed(t, c, behind, nil, cache.Hit, 105, 0)
		if calls.Load() != 1 {
			t.Errorf("%d calls, want the one that went on", calls.Load())
		}
	})
}

// The wait is a part of the time between blocks, and none where reads take longer.
func TestWaitFollowsTheTimeBetweenBlocks(t *testing.T) {
	tests := []struct {
		name          string
		set, interval time.Duration
		took          time.Duration // by reads lately
		want          time.Duration // of the wait
	}{
		{"a quarter of it", 0, time.Second, 5 * time.Millisecond, 250 * time.Millisecond},
		{"half a second at most", 0, time.Minute, 5 * time.Millisecond, 500 * time.Millisecond},
		{"long enough to be scheduled", 0, 10 * time.Millisecond, time.Millisecond, 20 * time.Millisecond},
		{"a moment where it is not known", 0, 0, 5 * time.Millisecond, 100 * time.Millisecond},
		{"what is set wins", 40 * time.Millisecond, time.Second, 5 * time.Millisecond, 40 * time.Millisecond},
		{"reads within it are waited for", 0, 2 * time.Second, 350 * time.Millisecond, 500 * time.Millisecond},
		{"longer ones are not", 0, time.Second, 350 * time.Millisecond, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCache(t, cache.Options{Patience: tt.set})
				var calls atomic.Int64
				for h := range int64(101) {
					mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: h, MinHeight: h, Interval: tt.interval}, slow(&calls, tt.took, answer(h, page)))
				}
				q := cache.Query{Key: "k", Policy: live, Tip: 102, Interval: tt.interval}
				timed(t, c, q, slow(&calls, 5*time.Second, answer(102, page)), cache.StaleHit, 100, tt.want)
			})
		})
	}
}

// An origin that answers one read each 100 ms answers the tenth in a second, whatever
// the reads before took.
func TestLongQueueIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		turn := make(chan bool, 1)
		queued := func(height int64) cache.Origin {
			return func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
				turn <- true
				defer func() { <-turn }()
				time.Sleep(100 * time.Millisecond)
				return answer(height, page)(ctx, prev)
			}
		}
		q := func(key string, tip int64) cache.Query {
			return cache.Query{Key: key, Policy: live, Tip: tip, Interval: 2 * time.Second}
		}
		mustGet(t, c, q("late", 100), queued(100))
		var all sync.WaitGroup
		ask := func(n int) {
			for i := range n {
				all.Go(func() { mustGet(t, c, q(fmt.Sprint("k", rand.Text(), i), 105), queued(105)) })
			}
			synctest.Wait()
		}
		for range 20 { // reads of which each finds one before it
			ask(2)
			all.Wait()
		}
		ask(10)
		timed(t, c, q("late", 105), queued(105), cache.StaleHit, 100, 0)
		all.Wait()
	})
}

func TestReadsOfAQueueSayNothingOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := old(t, cache.Options{})
		var calls atomic.Int64
		for h := range int64(30) {
			mustGet(t, c, cache.Query{Key: "scan", Policy: live, Tip: h, MinHeight: h, Queue: line{0, 0}}, slow(&calls, 3*time.Second, answer(h, page)))
		}
		timed(t, c, behind, slow(&calls, 50*time.Millisecond, answer(105, page)), cache.Miss, 105, 50*time.Millisecond)
	})
}

func TestRecoveredOriginIsAwaitedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		var calls atomic.Int64
		h := int64(100)
		for range 30 {
			mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: h, MinHeight: h}, slow(&calls, 9*time.Second, answer(h, page)))
			h++
		}
		for range 20 { // which nobody waits for
			h += 5
			mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: h}, slow(&calls, 5*time.Millisecond, answer(h, page)))
			time.Sleep(time.Second)
		}
		h += 5
		timed(t, c, cache.Query{Key: "k", Policy: live, Tip: h}, slow(&calls, 5*time.Millisecond, answer(h, page)), cache.Miss, h, 5*time.Millisecond)
	})
}

func TestOriginThatFailsLateForOthersIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := old(t, cache.Options{})
		var calls atomic.Int64
		for i := range 30 {
			if _, err := c.Get(t.Context(), cache.Query{Key: fmt.Sprint(i), Policy: live, Tip: 105}, slow(&calls, 3*time.Second, down)); err == nil {
				t.Error("failed read returned an entry")
			}
		}
		timed(t, c, behind, slow(&calls, 3*time.Second, down), cache.StaleHit, 100, 0)
	})
}

func TestStaleEntryServedAtOnceBeyondMaxWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := old(t, cache.Options{MaxWaiters: 1})
		var calls atomic.Int64
		go func() {
			_, _ = c.Get(context.Background(), cache.Query{Key: "cold", Policy: live, Tip: 105}, slow(&calls, time.Second, answer(105, page)))
		}()
		synctest.Wait()
		timed(t, c, behind, answer(105, page), cache.StaleHit, 100, 0)
		synctest.Wait()
		timed(t, c, behind, nil, cache.Hit, 105, 0)
	})
}

// A flight that began before the block may bring the answer of the one before.
func TestFlightOfPreviousBlockDoesNotEndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := old(t, cache.Options{})
		var calls atomic.Int64
		var first sync.WaitGroup
		defer first.Wait()
		first.Go(func() { mustGet(t, c, behind, slow(&calls, 30*time.Millisecond, answer(105, page))) })
		synctest.Wait()
		later := behind
		later.Tip = 110
		timed(t, c, later, slow(&calls, 30*time.Millisecond, answer(110, page)), cache.Miss, 110, 60*time.Millisecond)
	})
}

func TestWaitDoesNotRestartWithEachFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := old(t, cache.Options{})
		var calls atomic.Int64
		var first sync.WaitGroup
		defer first.Wait()
		first.Go(func() { mustGet(t, c, behind, slow(&calls, 90*time.Millisecond, answer(105, page))) })
		synctest.Wait()
		later := behind
		later.Tip = 110
		timed(t, c, later, slow(&calls, 90*time.Millisecond, answer(110, page)), cache.StaleHit, 105, 100*time.Millisecond)
	})
}

// A line is where reads wait for so long, in the foreground and in the background.
type line [2]time.Duration

func (l line) Expected(background bool) time.Duration {
	if background {
		return l[1]
	}
	return l[0]
}

// The queue of the origin tells what a caller would wait; one that would be given the
// entry at hand in the end is given it at once.
func TestCallerWaitsIfExpectedWaitIsShort(t *testing.T) {
	const behindErrors = 120 // the entry at 100 is kept for errors by then
	for name, tt := range map[string]struct {
		line    line
		tip     int64
		waiting bool // a flight in the background is under way
		want    cache.Outcome
		after   time.Duration
	}{
		"within it":                     {line{499 * time.Millisecond}, 105, false, cache.Miss, 300 * time.Millisecond},
		"after it":                      {line{501 * time.Millisecond}, 105, false, cache.StaleHit, 0},
		"in the background after it":    {line{time.Millisecond, time.Second}, 105, true, cache.StaleHit, 0},
		"kept for errors, within it":    {line{999 * time.Millisecond}, behindErrors, false, cache.Miss, 300 * time.Millisecond},
		"kept for errors, after it":     {line{1001 * time.Millisecond}, behindErrors, false, cache.StaleError, 0},
		"kept for errors, behind those": {line{time.Millisecond, 2 * time.Second}, behindErrors, true, cache.StaleError, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := old(t, cache.Options{})
				var calls atomic.Int64
				origin := slow(&calls, 300*time.Millisecond, answer(tt.tip, page))
				q := cache.Query{Key: "k", Policy: live, Tip: tt.tip, Interval: 2 * time.Second, Queue: tt.line}
				height := int64(100)
				if tt.want == cache.Miss {
					height = tt.tip
				}
				if tt.waiting {
					full := q
					full.Queue = line{time.Hour, time.Hour}
					mustGet(t, c, full, origin)
					synctest.Wait()
				}
				timed(t, c, q, origin, tt.want, height, tt.after)
			})
		})
	}
}
