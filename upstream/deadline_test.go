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
			ctx, cancel := context.WithCancel(lazy)
			defer cancel()
			derived = append(derived, ctx)
		}
		if more := runtime.NumGoroutine() - before; more > len(derived)/2 { // other tests may start some
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
