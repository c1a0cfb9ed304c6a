package cache_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/expect"
)

// at105 finds the entry of newCacheWithEntry stale.
var at105 = cache.Query{Key: "k", Policy: live, Tip: 105}

// checkGet calls Get and checks the outcome, the height and the time that it took.
func checkGet(t *testing.T, c *cache.Cache, q cache.Query, from originFunc, want cache.Outcome, height int64, after time.Duration) {
	t.Helper()
	checkLoad(t, c, q, from, want, height, after)
}

// checkLoad is checkGet with any Loader.
func checkLoad(t *testing.T, c *cache.Cache, q cache.Query, from cache.Loader, want cache.Outcome, height int64, after time.Duration) {
	t.Helper()
	began := time.Now()
	res := mustLoad(t, c, q, from)
	if took := time.Since(began).Truncate(time.Millisecond); res.Outcome != want || res.Entry.Height != height || took != after {
		t.Errorf("Get = %v at %d after %v, want %v at %d after %v", res.Outcome, res.Entry.Height, took, want, height, after)
	}
}

// newCacheWithEntry returns a cache that has an entry of the key k at height 100.
func newCacheWithEntry(t *testing.T, o cache.Options) *cache.Cache {
	t.Helper()
	c := newCache(t, o)
	mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))
	return c
}

func TestCallersAfterBlockWaitForOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCacheWithEntry(t, cache.Options{})
		var calls atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				checkGet(t, c, at105, slowOrigin(&calls, 20*time.Millisecond, answer(105, page)), cache.Miss, 105, 20*time.Millisecond)
			})
		}
		all.Wait()
		expect.Equal(t, calls.Load(), 1, "calls of the origin")
	})
}

func TestFirstCallerWaitsForSlowReadAndNextDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCacheWithEntry(t, cache.Options{Patience: 80 * time.Millisecond})
		var calls atomic.Int64
		origin := slowOrigin(&calls, time.Second, answer(105, page))
		checkGet(t, c, at105, origin, cache.StaleHit, 100, 80*time.Millisecond)
		checkGet(t, c, at105, origin, cache.StaleHit, 100, 0)
		time.Sleep(time.Second)
		checkGet(t, c, at105, nil, cache.Hit, 105, 0)
		expect.Equal(t, calls.Load(), 1, "calls of the origin")
	})
}

func TestWaitDependsOnBlockTime(t *testing.T) {
	for name, tt := range map[string]struct{ patience, interval, want time.Duration }{
		"a quarter of the block time":         {0, time.Second, 250 * time.Millisecond},
		"at most half a second":               {0, time.Minute, 500 * time.Millisecond},
		"at least 20 ms":                      {0, 10 * time.Millisecond, 20 * time.Millisecond},
		"100 ms if the block time is unknown": {0, 0, 100 * time.Millisecond},
		"Patience if it is set":               {40 * time.Millisecond, time.Second, 40 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCacheWithEntry(t, cache.Options{Patience: tt.patience})
				q := at105
				q.Interval = tt.interval
				var calls atomic.Int64
				checkGet(t, c, q, slowOrigin(&calls, 5*time.Second, answer(105, page)), cache.StaleHit, 100, tt.want)
			})
		})
	}
}

func TestStaleEntryServedAtOnceBeyondMaxWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCacheWithEntry(t, cache.Options{MaxWaiters: 1})
		var calls atomic.Int64
		go func() {
			_, _ = c.Get(context.Background(), cache.Query{Key: "cold", Policy: live, Tip: 105}, slowOrigin(&calls, time.Second, answer(105, page)))
		}()
		synctest.Wait()
		checkGet(t, c, at105, answer(105, page), cache.StaleHit, 100, 0)
		synctest.Wait()
		checkGet(t, c, at105, nil, cache.Hit, 105, 0)
	})
}

// A flight that began before the block may return an entry of the previous block. The caller then waits for the next one.
func TestFlightOfPreviousBlockNeitherEndsNorRestartsTheWait(t *testing.T) {
	for read, want := range map[time.Duration]struct {
		outcome cache.Outcome
		height  int64
		after   time.Duration
	}{
		30 * time.Millisecond: {cache.Miss, 110, 60 * time.Millisecond},
		90 * time.Millisecond: {cache.StaleHit, 105, 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCacheWithEntry(t, cache.Options{})
			var calls atomic.Int64
			var first sync.WaitGroup
			defer first.Wait()
			first.Go(func() { mustGet(t, c, at105, slowOrigin(&calls, read, answer(105, page))) })
			synctest.Wait()
			later := at105
			later.Tip = 110
			checkGet(t, c, later, slowOrigin(&calls, read, answer(110, page)), want.outcome, want.height, want.after)
		})
	}
}

// longQueue makes callers with a stale entry wait for no read.
var longQueue = queue{time.Hour, time.Hour}

// A caller that would time out in the origin's queue gets the stale entry at once.
func TestCallerWaitsIfExpectedWaitIsShort(t *testing.T) {
	const errorTip = 120 // the entry at 100 is served only for failures of the origin
	for name, tt := range map[string]struct {
		queue    queue
		tip      int64
		inFlight bool // a flight in the background is reading the key
		want     cache.Outcome
		after    time.Duration
	}{
		"stale, short queue":                   {queue{499 * time.Millisecond}, 105, false, cache.Miss, 300 * time.Millisecond},
		"stale, long queue":                    {queue{501 * time.Millisecond}, 105, false, cache.StaleHit, 0},
		"stale, long background queue":         {queue{time.Millisecond, time.Second}, 105, true, cache.StaleHit, 0},
		"only for errors, short queue":         {queue{999 * time.Millisecond}, errorTip, false, cache.Miss, 300 * time.Millisecond},
		"only for errors, long queue":          {queue{1001 * time.Millisecond}, errorTip, false, cache.StaleError, 0},
		"only for errors, long background one": {queue{time.Millisecond, 2 * time.Second}, errorTip, true, cache.StaleError, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCacheWithEntry(t, cache.Options{})
				var calls atomic.Int64
				origin := slowOrigin(&calls, 300*time.Millisecond, answer(tt.tip, page))
				q := cache.Query{Key: "k", Policy: live, Tip: tt.tip, Interval: 2 * time.Second}
				height := int64(100)
				if tt.want == cache.Miss {
					height = tt.tip
				}
				if tt.inFlight {
					mustLoad(t, c, q, queued(origin, longQueue))
					synctest.Wait()
				}
				checkLoad(t, c, q, queued(origin, tt.queue), tt.want, height, tt.after)
			})
		})
	}
}
