package cache_test

import (
	"context"
	"errors"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
)

var errDown = errors.New("node is down")

// slow is an origin that takes a while, and counts.
func slow(calls *atomic.Int64, d time.Duration, next cache.Origin) cache.Origin {
	return func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
		calls.Add(1)
		select {
		case <-time.After(d):
			return next(ctx, prev)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func down(context.Context, *cache.Entry) (*cache.Entry, error) { return nil, errDown }

func TestCallersShareOneFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		var calls atomic.Int64
		origin := slow(&calls, time.Second/2, answer(100, page))
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, origin) })
		}
		all.Wait()
		all100, misses, collapsed := metric(t, c, "requests_total"), metric(t, c, "requests_total", "miss"), metric(t, c, "collapsed_total")
		if calls.Load() != 1 || misses != 100 || collapsed != 99 || all100 != 100 {
			t.Errorf("%d calls, %d requests, %d misses, %d collapsed; want 1 call, 100 misses, 99 of them collapsed", calls.Load(), all100, misses, collapsed)
		}
	})
}

func TestCallerWithNothingToServeRunsItsFlight(t *testing.T) {
	c := newCache(t, cache.Options{FlightTimeout: 10 * time.Second})
	soon, cancel := context.WithTimeout(t.Context(), 9*time.Second)
	defer cancel()
	for key, test := range map[string]struct {
		ctx  context.Context //nolint:containedctx // of a case
		want bool
	}{
		"no deadline":              {t.Context(), true},
		"a deadline before flight": {soon, false},
	} {
		var stack string
		_, err := c.Get(test.ctx, cache.Query{Key: key, Policy: live, Tip: 100}, func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
			stack = string(debug.Stack())
			return answer(100, page)(ctx, prev)
		})
		if got := strings.Contains(stack, "testing.tRunner("); err != nil || got != test.want {
			t.Errorf("%s: flight on the caller's goroutine = %t, want %t; error %v", key, got, test.want, err)
		}
	}
}

// A caller may find nothing in memory just before the flight lands, and start
// the next one just after.
func TestConcurrentCallersReadEachKeyOnce(t *testing.T) {
	c := newCache(t, cache.Options{})
	const keys, callers = 500, 8
	var calls atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for key := range keys {
				q := cache.Query{Key: strconv.Itoa(key), Policy: live, Tip: 100}
				mustGet(t, c, q, func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
					calls.Add(1)
					return answer(100, page)(ctx, prev)
				})
			}
		})
	}
	all.Wait()
	if calls.Load() != keys {
		t.Errorf("%d calls, want %d", calls.Load(), keys)
	}
}

func TestFlightOutlivesTheCallerWhoStartedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		q := cache.Query{Key: "k", Policy: live, Tip: 100}
		var calls atomic.Int64
		origin := slow(&calls, time.Second, answer(100, page))

		impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		left := make(chan error)
		go func() {
			_, err := c.Get(impatient, q, origin)
			left <- err
		}()
		synctest.Wait()
		stayed := make(chan cache.Result)
		go func() { stayed <- mustGet(t, c, q, origin) }()

		if err := <-left; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the impatient caller got %v, want its own deadline", err)
		}
		if res := <-stayed; res.Outcome != cache.Miss || !res.Collapsed {
			t.Errorf("the patient caller got %+v, want a collapsed miss", res)
		}
		if calls.Load() != 1 {
			t.Errorf("%d calls of the origin, want 1", calls.Load())
		}
	})
}

func TestTooManyWaitersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{MaxWaiters: 2})
		var calls atomic.Int64
		origin := slow(&calls, time.Second, answer(100, page))
		var waiting sync.WaitGroup
		for range 2 {
			waiting.Go(func() { mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, origin) })
		}
		synctest.Wait()
		if _, err := c.Get(t.Context(), cache.Query{Key: "k", Policy: live, Tip: 100}, origin); !errors.Is(err, cache.ErrOverloaded) {
			t.Errorf("the third caller got %v, want ErrOverloaded", err)
		}
		waiting.Wait()
		mustGet(t, c, cache.Query{Key: "other", Policy: live, Tip: 100}, origin)
	})
}

func TestOriginFaultsBecomeErrors(t *testing.T) {
	tests := []struct {
		name   string
		origin cache.Origin
		want   string
	}{
		{"a panic", func(context.Context, *cache.Entry) (*cache.Entry, error) { panic("oh") }, "panicked: oh"},
		{"nothing at all", func(context.Context, *cache.Entry) (*cache.Entry, error) { return nil, nil }, "neither"},
		{"an entry without content", func(context.Context, *cache.Entry) (*cache.Entry, error) { return &cache.Entry{}, nil }, "neither"},
		{"its own error", down, "node is down"},
		{"no end", func(ctx context.Context, _ *cache.Entry) (*cache.Entry, error) { <-ctx.Done(); return nil, ctx.Err() }, "deadline"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCache(t, cache.Options{})
				_, err := c.Get(t.Context(), cache.Query{Key: "k", Policy: live, Tip: 100}, tt.origin)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want one with %q", err, tt.want)
				}
				mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))
			})
		})
	}
}

func TestStaleHitOfSlowOriginIsRefreshedOnceInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		tire(t, c)
		mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))

		var calls, behind atomic.Int64
		origin := slow(&calls, time.Second, func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
			if cache.InBackground(ctx) {
				behind.Add(1)
			}
			return prev.Confirm(105, time.Now()), nil
		})
		q := cache.Query{Key: "k", Policy: live, Tip: 105}
		for range 50 {
			if res := mustGet(t, c, q, origin); res.Outcome != cache.StaleHit || res.Entry.Height != 100 || res.Collapsed {
				t.Fatalf("got %v at %d, collapsed %t; want a stale hit at 100 that joined no flight", res.Outcome, res.Entry.Height, res.Collapsed)
			}
		}
		time.Sleep(2 * time.Second)
		if res := mustGet(t, c, q, origin); res.Outcome != cache.Hit || res.Entry.Height != 105 {
			t.Errorf("then got %v at %d, want a hit at 105", res.Outcome, res.Entry.Height)
		}
		if calls.Load() != 1 || behind.Load() != 1 {
			t.Errorf("%d calls, %d in the background; want 1 and 1", calls.Load(), behind.Load())
		}
	})
}

func TestKeyIsNotReadAgainSoonAfterFailure(t *testing.T) {
	tests := []struct {
		name string
		tip  int64
		want cache.Outcome
	}{
		{"while a stale entry is served", 105, cache.StaleHit},
		{"while an old entry stands in", 150, cache.StaleError},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCache(t, cache.Options{})
				mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))
				var calls atomic.Int64
				origin := slow(&calls, 0, down)
				ask := func() {
					for range 20 {
						res := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: tt.tip}, origin)
						if res.Outcome != tt.want || res.Entry.Height != 100 {
							t.Fatalf("got %v at %d, want %v at 100", res.Outcome, res.Entry.Height, tt.want)
						}
						if tt.want == cache.StaleError && !errors.Is(res.Err, errDown) {
							t.Fatalf("Err = %v, want %v", res.Err, errDown)
						}
						synctest.Wait()
					}
				}
				ask()
				if calls.Load() != 1 {
					t.Errorf("%d calls at once, want 1", calls.Load())
				}
				time.Sleep(2 * time.Second)
				ask()
				if calls.Load() != 2 {
					t.Errorf("%d calls after a rest, want 2", calls.Load())
				}
			})
		})
	}
}

func TestStaleEntryServedAtOnceWhileOriginIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{Patience: 200 * time.Millisecond})
		q := cache.Query{Key: "k", Policy: live, Tip: 150}
		mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))
		var calls atomic.Int64
		for _, want := range []time.Duration{time.Second, 0, 0} {
			began := time.Now()
			res := mustGet(t, c, q, slow(&calls, 5*time.Second, answer(150, page)))
			if took := time.Since(began); res.Outcome != cache.StaleError || took != want || !errors.Is(res.Err, context.DeadlineExceeded) {
				t.Errorf("%v after %v by %v, want stale_error after %v: no answer in time", res.Outcome, took, res.Err, want)
			}
		}
		time.Sleep(5 * time.Second)
		if res := mustGet(t, c, q, nil); res.Outcome != cache.Hit || calls.Load() != 1 {
			t.Errorf("%v after %d calls, want the answer of the flight that went on", res.Outcome, calls.Load())
		}
	})
}

func TestStalledOriginDelaysOneCallerPerFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		q := cache.Query{Key: "k", Policy: live, Tip: 150}
		mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))
		var calls atomic.Int64
		mustGet(t, c, q, slow(&calls, time.Hour, nil))
		began := time.Now()
		for range 60 {
			time.Sleep(time.Second)
			mustGet(t, c, q, slow(&calls, time.Hour, nil))
		}
		if waited, most := time.Since(began)-time.Minute, time.Duration(calls.Load())*time.Second; waited > most {
			t.Errorf("callers waited %v in all, want %v at most: 1 s per flight", waited, most)
		}
		if n := calls.Load(); n < 4 || n > 8 {
			t.Errorf("flights = %d, want 4 to 8 in a minute of flights of 10 s", n)
		}
	})
}

func TestCallerAtDeadlineGetsStaleEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		var calls atomic.Int64
		res, err := c.Get(ctx, cache.Query{Key: "k", Policy: live, Tip: 150}, slow(&calls, 2*time.Second, answer(150, page)))
		if err != nil || res.Outcome != cache.StaleError || !errors.Is(res.Err, context.DeadlineExceeded) {
			t.Errorf("got %+v, %v; want the old entry and the deadline", res, err)
		}
		time.Sleep(2 * time.Second)
		if res := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 150}, nil); res.Outcome != cache.Hit {
			t.Errorf("outcome = %v, want hit: the flight continues without its caller", res.Outcome)
		}
	})
}

func TestCallerRetriesIfSharedFlightReturnsOlderEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		var calls atomic.Int64
		var first sync.WaitGroup
		defer first.Wait()
		first.Go(func() {
			_, _ = c.Get(t.Context(), cache.Query{Key: "k", Policy: live, Tip: 100}, slow(&calls, time.Second, answer(100, page)))
		})
		synctest.Wait()
		res := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 101, MinHeight: 101}, slow(&calls, time.Second, answer(101, page)))
		if res.Entry.Height != 101 || calls.Load() != 2 {
			t.Errorf("read at %d after %d calls, want 101 after 2", res.Entry.Height, calls.Load())
		}
	})
}

func TestBackgroundFlightsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{MaxBackground: 1})
		tire(t, c)
		for _, key := range []string{"a", "b"} {
			mustGet(t, c, cache.Query{Key: key, Policy: live, Tip: 100}, answer(100, page))
		}
		var calls atomic.Int64
		for _, key := range []string{"a", "b"} {
			mustGet(t, c, cache.Query{Key: key, Policy: live, Tip: 105}, slow(&calls, time.Second, answer(105, page)))
		}
		synctest.Wait()
		if skipped := metric(t, c, "background_skipped_total"); calls.Load() != 1 || skipped != 1 || metric(t, c, "background_flights") != 1 {
			t.Errorf("%d calls, %+v; want one flight begun and one skipped", calls.Load(), skipped)
		}
	})
}
