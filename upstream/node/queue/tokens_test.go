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
		const patience = 2 * time.Second
		tokens := NewTokens(10, 5, patience)
		ctx, stop := context.WithCancel(t.Context())
		type count struct{ given, late atomic.Int64 }
		ask := func(client string, every time.Duration) *count {
			n := &count{}
			acquire := func() {
				start := time.Now()
				switch err := tokens.Acquire(context.Background(), client); {
				case err == nil:
					n.given.Add(1)
				case errors.Is(err, ErrLate):
					n.late.Add(1)
				default:
					t.Error(err)
				}
				if took := time.Since(start); took > patience {
					t.Errorf("%s waited %s for a token, want less", client, took)
				}
			}
			go func() {
				for ; ctx.Err() == nil; time.Sleep(every) {
					go acquire()
				}
			}()
			return n
		}
		flood := ask("flood", time.Millisecond)
		synctest.Wait()
		honest := ask("honest", 500*time.Millisecond)
		time.Sleep(time.Minute + time.Millisecond)
		stop()
		time.Sleep(2 * patience)
		synctest.Wait()
		if honest.given.Load() != 121 || honest.late.Load() != 0 {
			t.Errorf("the honest client got %d tokens and failed %d times", honest.given.Load(), honest.late.Load())
		}
		if all := honest.given.Load() + flood.given.Load(); all < 600 || all > 635 {
			t.Errorf("tokens in a minute = %d, want 10 per second", all)
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
			t.Errorf("eighth Acquire = %v after %s, want ErrLate at once", err, time.Since(start))
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
			t.Errorf("next Acquire = %v after %s, want the token in time", err, time.Since(start))
		}
	})
}
