package upstream_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

func TestContextsDerivedFromLazyDeadlineEndWithItWithoutGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lazy := upstream.WithLazyDeadline(t.Context(), time.Now().Add(time.Second))
		defer lazy.Release()
		before, derived := runtime.NumGoroutine(), []context.Context{}
		for range 100 {
			for _, parent := range []context.Context{lazy, context.WithValue(lazy, key{}, 7)} {
				ctx, cancel := context.WithCancel(parent)
				defer cancel()
				derived = append(derived, ctx)
			}
		}
		if more := runtime.NumGoroutine() - before; more > len(derived)/4 { // other tests may start some
			t.Errorf("goroutines for %d contexts = %d, want none of their own", len(derived), more)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for _, ctx := range derived {
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Fatalf("Err after the deadline = %v, want %v", ctx.Err(), context.DeadlineExceeded)
			}
		}
	})
}

type key struct{}

func TestDetachedContextHasTheValuesOfOneAndTheEndOfAnother(t *testing.T) {
	from, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, 7))
	life, end := context.WithCancel(t.Context())
	ctx := upstream.Detach(from, life)
	before := runtime.NumGoroutine()
	derived, cancelDerived := context.WithCancel(ctx)
	defer cancelDerived()
	if more := runtime.NumGoroutine() - before; more > 0 {
		t.Errorf("goroutines for a derived context = %d, want 0", more)
	}
	cancel()
	if ctx.Value(key{}) != 7 || ctx.Err() != nil || derived.Err() != nil {
		t.Errorf("value %v, error %v, error of a derived context %v; want 7, nil, nil", ctx.Value(key{}), ctx.Err(), derived.Err())
	}
	end()
	if <-derived.Done(); !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("error = %v, want %v", ctx.Err(), context.Canceled)
	}
}

// http.Transport returns the cause, so a request that timed out would look canceled.
func TestCauseOfDetachedContextIsNotThatOfItsValues(t *testing.T) {
	from, cancel := context.WithCancel(t.Context())
	cancel()
	ctx := upstream.WithLazyDeadline(upstream.Detach(from, t.Context()), time.Now())
	defer ctx.Release()
	derived, cancelDerived := context.WithCancel(ctx)
	defer cancelDerived()
	<-derived.Done()
	for name, ctx := range map[string]context.Context{"context": ctx, "derived context": derived} {
		if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cause of the %s = %v, want %v", name, err, context.DeadlineExceeded)
		}
	}
}
