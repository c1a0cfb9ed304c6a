package cache_test

import (
	"context"
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
	mustGet(t, c, cache.Query{Key: "k", Kind: 1, Policy: live, Tip: 100}, answer(100, page))
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

func TestTheFirstToAskAfterABlockGetsItsAnswer(t *testing.T) {
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

func TestAStaleAnswerIsGivenAfterTheWaitAndThenAtOnce(t *testing.T) {
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

// The wait is a multiple of what such reads took lately, and none where they
// take longer than it may be.
func TestTheWaitFollowsWhatReadsTook(t *testing.T) {
	tests := []struct {
		name string
		took time.Duration
		tip  int64         // when there is an entry of block 100
		want time.Duration // of the wait
	}{
		{"quick reads are waited for a moment", 5 * time.Millisecond, 102, 40 * time.Millisecond},
		{"the quickest for long enough to be scheduled", time.Millisecond / 10, 102, 20 * time.Millisecond},
		{"others as long as patience lasts", 50 * time.Millisecond, 102, 100 * time.Millisecond},
		{"slow ones not at all", 300 * time.Millisecond, 102, 0},
		{"quick reads in place of an older answer as long as patience lasts", 5 * time.Millisecond, 103, 100 * time.Millisecond},
		{"slow ones not at all in place of an older answer either", 300 * time.Millisecond, 103, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCache(t, cache.Options{})
				var calls atomic.Int64
				for h := range int64(101) {
					mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: h, MinHeight: h}, slow(&calls, tt.took, answer(h, page)))
				}
				q := cache.Query{Key: "k", Policy: live, Tip: tt.tip}
				timed(t, c, q, slow(&calls, time.Second, answer(tt.tip, page)), cache.StaleHit, 100, tt.want)
			})
		})
	}
}

func TestReadsOfOneKindSayNothingOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := old(t, cache.Options{})
		var calls atomic.Int64
		for h := range int64(30) {
			mustGet(t, c, cache.Query{Key: "scan", Kind: 2, Policy: live, Tip: h, MinHeight: h}, slow(&calls, 3*time.Second, answer(h, page)))
		}
		timed(t, c, behind, slow(&calls, 50*time.Millisecond, answer(105, page)), cache.Miss, 105, 50*time.Millisecond)
	})
}

func TestASlowOriginIsWaitedForAgainWhenItHasRecovered(t *testing.T) {
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

func TestAFailingOriginIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := old(t, cache.Options{})
		var calls atomic.Int64
		origin := slow(&calls, 10*time.Millisecond, down)
		timed(t, c, behind, origin, cache.StaleHit, 100, 10*time.Millisecond)
		for range 20 {
			timed(t, c, behind, origin, cache.StaleHit, 100, 0)
		}
		if calls.Load() != 1 {
			t.Errorf("%d calls, want 1", calls.Load())
		}
	})
}

func TestNobodyWaitsWhereTooManyDo(t *testing.T) {
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
func TestAFlightOfTheBlockBeforeDoesNotEndTheWait(t *testing.T) {
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

func TestTheWaitDoesNotBeginAnewWithEachFlight(t *testing.T) {
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
