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
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

var errDown = errors.New("node is down")

// slowOrigin returns an origin that counts its calls and calls next after d.
func slowOrigin(calls *atomic.Int64, d time.Duration, next originFunc) originFunc {
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
		origin := slowOrigin(&calls, time.Second/2, answer(100, page))
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, origin) })
		}
		all.Wait()
		requests, misses, collapsed := metric(t, c, "requests_total"), metric(t, c, "requests_total", "miss"), metric(t, c, "collapsed_total")
		if calls.Load() != 1 || requests != 100 || misses != 100 || collapsed != 99 {
			t.Errorf("calls = %d, requests = %d, misses = %d, collapsed = %d; want 1, 100, 100, 99", calls.Load(), requests, misses, collapsed)
		}
	})
}

func TestCallerWithNothingToServeRunsItsFlight(t *testing.T) {
	c := newCache(t, cache.Options{FlightTimeout: 10 * time.Second})
	soon, cancel := context.WithTimeout(t.Context(), 9*time.Second)
	defer cancel()
	for key, test := range map[string]struct {
		ctx  context.Context //nolint:containedctx // a test case
		want bool
	}{
		"no deadline":              {t.Context(), true},
		"a deadline before flight": {soon, false},
	} {
		var stack string
		_, err := c.Get(test.ctx, cache.Query{Key: key, Policy: live, Tip: 100}, originFunc(func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
			stack = string(debug.Stack())
			return answer(100, page)(ctx, prev)
		}))
		if got := strings.Contains(stack, "testing.tRunner("); err != nil || got != test.want {
			t.Errorf("%s: flight on the caller's goroutine = %t, want %t; error %v", key, got, test.want, err)
		}
	}
}

// A caller that looks into memory just before a flight ends must not start another flight.
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
	expect.Equal(t, calls.Load(), keys, "calls of the origin")
}

func TestFlightContinuesAfterItsCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		q := cache.Query{Key: "k", Policy: live, Tip: 100}
		var calls atomic.Int64
		origin := slowOrigin(&calls, time.Second, answer(100, page))

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
			t.Errorf("error of the caller that left = %v, want its deadline", err)
		}
		if res := <-stayed; res.Outcome != cache.Miss || !res.Collapsed {
			t.Errorf("result of the caller that stayed = %+v, want a collapsed miss", res)
		}
		expect.Equal(t, calls.Load(), 1, "calls of the origin")
	})
}

func TestCallersBeyondMaxWaitersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{MaxWaiters: 2})
		var calls atomic.Int64
		origin := slowOrigin(&calls, time.Second, answer(100, page))
		var waiting sync.WaitGroup
		for range 2 {
			waiting.Go(func() { mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, origin) })
		}
		synctest.Wait()
		_, err := c.Get(t.Context(), cache.Query{Key: "k", Policy: live, Tip: 100}, origin)
		expect.ErrorIs(t, err, cache.ErrOverloaded, "Get of the third caller")
		waiting.Wait()
		mustGet(t, c, cache.Query{Key: "other", Policy: live, Tip: 100}, origin)
	})
}

func TestClientWithManyWaitingCallersLeavesPlacesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{MaxWaiters: 20})
		var calls atomic.Int64
		get := func(client, key string) error {
			_, err := c.Get(t.Context(), cache.Query{Key: key, Client: client, Policy: live, Tip: 100}, slowOrigin(&calls, time.Second, answer(100, page)))
			return err
		}
		var waiting sync.WaitGroup
		defer waiting.Wait()
		for range 11 { // more than half of all
			waiting.Go(func() { expect.NoError(t, get("one", "k")) })
		}
		synctest.Wait()
		expect.ErrorIs(t, get("one", "k"), account.ErrShare, "Get of the twelfth caller of a client")
		waiting.Go(func() { expect.NoError(t, get("other", "cold")) })
		synctest.Wait()
		expect.Equal(t, calls.Load(), 2, "calls of the origin, one of them for another client")
		expect.ErrorIs(t, get("other", "cold"), account.ErrShare, "Get of another client's second caller")
		for range 8 { // these may be callers of many clients
			waiting.Go(func() { expect.NoError(t, get("", "k")) })
		}
		synctest.Wait()
		expect.Equal(t, metric(t, c, "waiting"), 20, "waiting callers")
		expect.ErrorIs(t, get("", "k"), cache.ErrOverloaded, "Get of the 21st caller")
	})
}

func TestStaleEntryOfClientWithManyWaitingCallersIsRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{MaxWaiters: 20})
		q := cache.Query{Key: "k", Client: "one", Policy: byTheBlock, Tip: 100}
		mustGet(t, c, q, answer(100, page))
		var calls atomic.Int64
		var waiting sync.WaitGroup
		defer waiting.Wait()
		for range 11 { // more than half of all
			waiting.Go(func() {
				mustGet(t, c, cache.Query{Key: "cold", Client: "one", Policy: live, Tip: 100}, slowOrigin(&calls, time.Second, answer(100, page)))
			})
		}
		synctest.Wait()
		q.Tip = 101
		checkGet(t, c, q, answer(101, page), cache.StaleHit, 100, 0)
		synctest.Wait()
		checkGet(t, c, q, nil, cache.Hit, 101, 0)
	})
}

func TestRefusedShareIsNoFailureOfOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		q := cache.Query{Key: "k", Policy: byTheBlock, Tip: 100}
		mustGet(t, c, q, answer(100, page))
		q.Tip = 101
		checkGet(t, c, q, func(context.Context, *cache.Entry) (*cache.Entry, error) { return nil, account.ErrShare }, cache.StaleHit, 100, 0)
		expect.Equal(t, metric(t, c, "origin_errors_total"), 0, "failures of the origin")
		checkGet(t, c, q, answer(101, page), cache.Miss, 101, 0)
	})
}

// The origin of a batch reads the cache for the client whose caller began the flight.
func TestRefusedShareIsNotPassedToOtherClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		q := cache.Query{Key: "k", Policy: live, Tip: 100}
		refused := func(context.Context, *cache.Entry) (*cache.Entry, error) {
			time.Sleep(time.Second)
			return nil, account.ErrShare
		}
		var first sync.WaitGroup
		defer first.Wait()
		first.Go(func() {
			_, err := c.Get(t.Context(), q, originFunc(refused))
			expect.ErrorIs(t, err, account.ErrShare, "Get of the client without places")
		})
		synctest.Wait()
		var calls atomic.Int64
		later := slowOrigin(&calls, time.Second, answer(100, page)) // otherwise the first client might find its entry
		expect.Equal(t, mustGet(t, c, q, later).Outcome, cache.Miss, "outcome of another client that joined the flight")
	})
}

func TestOriginFailureIsReturnedAsError(t *testing.T) {
	tests := []struct {
		name   string
		origin originFunc
		want   string
	}{
		{"a panic", func(context.Context, *cache.Entry) (*cache.Entry, error) { panic("oh") }, "panicked: oh"},
		{"neither entry nor error", func(context.Context, *cache.Entry) (*cache.Entry, error) { return nil, nil }, "neither"},
		{"an entry without content", func(context.Context, *cache.Entry) (*cache.Entry, error) { return &cache.Entry{}, nil }, "neither"},
		{"an error", down, "node is down"},
		{"a read without end", func(ctx context.Context, _ *cache.Entry) (*cache.Entry, error) { <-ctx.Done(); return nil, ctx.Err() }, "deadline"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCache(t, cache.Options{})
				_, err := c.Get(t.Context(), cache.Query{Key: "k", Policy: live, Tip: 100}, tt.origin)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error = %v, want it to contain %q", err, tt.want)
				}
				mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))
			})
		})
	}
}

func TestStaleEntryOfSlowOriginIsRefreshedOnceInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))

		var calls, background atomic.Int64
		from := loader{func(_ context.Context, how cache.How) (*cache.Entry, error) {
			calls.Add(1)
			if how.For == cache.ForBackground {
				background.Add(1)
			}
			time.Sleep(time.Second)
			return how.Before.Confirm(105, time.Now()), nil
		}, longQueue}
		q := cache.Query{Key: "k", Policy: live, Tip: 105}
		for range 50 {
			if res := mustLoad(t, c, q, from); res.Outcome != cache.StaleHit || res.Entry.Height != 100 || res.Collapsed {
				t.Fatalf("got %v at %d, collapsed = %t; want a stale hit at 100, collapsed = false", res.Outcome, res.Entry.Height, res.Collapsed)
			}
		}
		time.Sleep(2 * time.Second)
		if res := mustLoad(t, c, q, from); res.Outcome != cache.Hit || res.Entry.Height != 105 {
			t.Errorf("after the refresh got %v at %d, want a hit at 105", res.Outcome, res.Entry.Height)
		}
		if calls.Load() != 1 || background.Load() != 1 {
			t.Errorf("calls = %d, in the background = %d; want 1 and 1", calls.Load(), background.Load())
		}
	})
}

func TestKeyIsNotReadAgainSoonAfterFailure(t *testing.T) {
	tests := []struct {
		name string
		tip  int64
		want cache.Outcome
	}{
		{"while the entry is stale", 105, cache.StaleHit},
		{"while the entry is served only for the failure", 150, cache.StaleError},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCache(t, cache.Options{})
				mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))
				var calls atomic.Int64
				origin := slowOrigin(&calls, 0, down)
				request := func() {
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
				request()
				expect.Equal(t, calls.Load(), 1, "calls of the origin at first")
				time.Sleep(2 * time.Second)
				request()
				expect.Equal(t, calls.Load(), 2, "calls of the origin after 2s")
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
			res := mustGet(t, c, q, slowOrigin(&calls, 5*time.Second, answer(150, page)))
			if took := time.Since(began); res.Outcome != cache.StaleError || took != want || !errors.Is(res.Err, context.DeadlineExceeded) {
				t.Errorf("got %v, error %v after %v; want stale_error, deadline exceeded after %v", res.Outcome, res.Err, took, want)
			}
		}
		time.Sleep(5 * time.Second)
		if res := mustGet(t, c, q, nil); res.Outcome != cache.Hit || calls.Load() != 1 {
			t.Errorf("after the flight got %v with %d calls, want a hit with 1", res.Outcome, calls.Load())
		}
	})
}

func TestStalledOriginDelaysOneCallerPerFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		q := cache.Query{Key: "k", Policy: live, Tip: 150}
		mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))
		var calls atomic.Int64
		mustGet(t, c, q, slowOrigin(&calls, time.Hour, nil))
		began := time.Now()
		for range 60 {
			time.Sleep(time.Second)
			mustGet(t, c, q, slowOrigin(&calls, time.Hour, nil))
		}
		if waited, most := time.Since(began)-time.Minute, time.Duration(calls.Load())*time.Second; waited > most {
			t.Errorf("callers waited %v in total, want at most %v: 1 s per flight", waited, most)
		}
		if n := calls.Load(); n < 4 || n > 8 {
			t.Errorf("flights in a minute = %d, want 4 to 8: a flight takes 10 s", n)
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
		res, err := c.Get(ctx, cache.Query{Key: "k", Policy: live, Tip: 150}, slowOrigin(&calls, 2*time.Second, answer(150, page)))
		if err != nil || res.Outcome != cache.StaleError || !errors.Is(res.Err, context.DeadlineExceeded) {
			t.Errorf("Get = %+v, %v; want stale_error with deadline exceeded", res, err)
		}
		time.Sleep(2 * time.Second)
		expect.Equal(t, mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 150}, nil).Outcome, cache.Hit, "outcome after the flight, which continues without its caller")
	})
}

func TestCallerRetriesIfSharedFlightReturnsOlderEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		var calls atomic.Int64
		var first sync.WaitGroup
		defer first.Wait()
		first.Go(func() {
			_, _ = c.Get(t.Context(), cache.Query{Key: "k", Policy: live, Tip: 100}, slowOrigin(&calls, time.Second, answer(100, page)))
		})
		synctest.Wait()
		res := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 101, MinHeight: 101}, slowOrigin(&calls, time.Second, answer(101, page)))
		if res.Entry.Height != 101 || calls.Load() != 2 {
			t.Errorf("height = %d after %d calls, want 101 after 2", res.Entry.Height, calls.Load())
		}
	})
}

func TestBackgroundFlightsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{MaxBackground: 1})
		for _, key := range []string{"a", "b"} {
			mustGet(t, c, cache.Query{Key: key, Policy: live, Tip: 100}, answer(100, page))
		}
		var calls atomic.Int64
		for _, key := range []string{"a", "b"} {
			mustLoad(t, c, cache.Query{Key: key, Policy: live, Tip: 105}, queued(slowOrigin(&calls, time.Second, answer(105, page)), longQueue))
		}
		synctest.Wait()
		expect.Equal(t, calls.Load(), 1, "calls of the origin")
		expect.Equal(t, metric(t, c, "background_flights"), 1, "flights in the background")
		expect.Equal(t, metric(t, c, "background_skipped_total"), 1, "skipped flights")
	})
}
