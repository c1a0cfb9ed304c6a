package upstream_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestGuardDropsInputsThatPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(upstream.Panics)
		counted := func() float64 {
			all, err := registry.Gather()
			if err != nil || len(all) != 1 || all[0].GetName() != "tipcache_panics_total" {
				t.Fatalf("metrics = %v, %v; want tipcache_panics_total", all, err)
			}
			return all[0].GetMetric()[0].GetCounter().GetValue()
		}
		before := counted()
		time.Sleep(time.Duration(before) * time.Minute) // after the panics of earlier runs: each bubble's clock begins at the same time
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		failure := errors.New("no answer")
		if err := upstream.Guard(log, "test", func() error { return failure }); !errors.Is(err, failure) || text.Len() > 0 {
			t.Errorf("error = %v, want %v without a log line: %s", err, failure, &text)
		}
		for i := range 3 {
			if upstream.Panicking() {
				t.Errorf("Panicking = true after %d panics, want false", i)
			}
			err := upstream.Guard(log, "test", func() error { panic("odd input") })
			if !errors.Is(err, upstream.ErrPanicked) || !strings.Contains(err.Error(), "odd input") {
				t.Errorf("error = %v, want ErrPanicked with the panic", err)
			}
		}
		expect.Equal(t, counted()-before, 3, "counted panics")
		if !strings.Contains(text.String(), "guard_test.go") {
			t.Errorf("log = %s, want the stack", &text)
		}
		if !upstream.Panicking() {
			t.Error("Panicking = false after three panics, want true")
		}
		time.Sleep(time.Minute)
		if upstream.Panicking() {
			t.Error("Panicking = true a minute later, want false")
		}
	})
}
