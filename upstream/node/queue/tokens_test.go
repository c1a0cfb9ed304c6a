package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestFloodingClientTakesNoTokensOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxWait = 2 * time.Second
		tokens := NewTokens(10, 5, maxWait)
		ctx, stop := context.WithCancel(t.Context())
		type count struct{ acquired, late atomic.Int64 }
		start := func(client string, every time.Duration) *count {
			n := &count{}
			acquire := func() {
				begin := time.Now()
				switch err := tokens.Acquire(context.Background(), client); {
				case err == nil:
					n.acquired.Add(1)
				case errors.Is(err, ErrLate):
					n.late.Add(1)
				default:
					t.Error(err)
				}
				if took := time.Since(begin); took > maxWait {
					t.Errorf("%s waited %s for a token, want at most %s", client, took, maxWait)
				}
			}
			go func() {
				for ; ctx.Err() == nil; time.Sleep(every) {
					go acquire()
				}
			}()
			return n
		}
		flood := start("flood", time.Millisecond)
		synctest.Wait()
		honest := start("honest", 500*time.Millisecond)
		time.Sleep(time.Minute + time.Millisecond)
		stop()
		time.Sleep(2 * maxWait)
		synctest.Wait()
		expect.Equal(t, honest.acquired.Load(), 121, "tokens of the honest client")
		expect.Equal(t, honest.late.Load(), 0, "failures of the honest client")
		if all := honest.acquired.Load() + flood.acquired.Load(); all < 600 || all > 635 {
			t.Errorf("tokens in a minute = %d, want 600 to 635", all)
		}
		expect.Equal(t, tokens.queue.waits.requests(), 0, "waiting requests")
	})
}

func TestAcquireFailsAtOnceIfNoTokenComesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, start := NewTokens(0.1, 1, 61*time.Second), time.Now()
		for i := range 7 { // one now, and one every ten seconds
			go func() {
				if err := tokens.Acquire(t.Context(), "a"); err != nil {
					t.Errorf("Acquire %d = %v, want nil", i, err)
				}
			}()
			synctest.Wait()
		}
		if err := tokens.Acquire(t.Context(), "a"); !errors.Is(err, ErrLate) || time.Since(start) != 0 {
			t.Errorf("eighth Acquire = %v after %s, want %v at once", err, time.Since(start), ErrLate)
		}
		time.Sleep(time.Hour)
	})
}

func TestCanceledClientTakesNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := NewTokens(1, 1, time.Minute)
		expect.NoError(t, tokens.Acquire(t.Context(), "a"))
		ctx, leave := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer leave()
		expect.ErrorIs(t, tokens.Acquire(ctx, "a"), context.DeadlineExceeded, "Acquire of the canceled client")
		start := time.Now()
		if err := tokens.Acquire(t.Context(), "a"); err != nil || time.Since(start) != 500*time.Millisecond {
			t.Errorf("next Acquire = %v after %s, want nil after 500ms", err, time.Since(start))
		}
	})
}
