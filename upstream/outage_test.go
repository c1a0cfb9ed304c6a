package upstream_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
)

func TestOutageBeginsAfterThreeFailuresInThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := upstream.NewOutage(slog.New(slog.NewTextHandler(&log, nil)), "node a")
		all, refused := upstream.Outages{o}, errors.New("refused")
		expect := func(when string, degraded bool) {
			t.Helper()
			if got := o.Cause() != nil; got != degraded {
				t.Errorf("%s: degraded = %t, want %t", when, got, degraded)
			}
		}
		o.Failed(refused)
		if !o.Failing() {
			t.Error("Failing = false after a failure, want true")
		}
		time.Sleep(10 * time.Second)
		o.Failed(refused)
		expect("after two failures in ten seconds", false)
		o.End()
		for range 100 {
			o.Failed(refused)
		}
		time.Sleep(2999 * time.Millisecond)
		expect("just before three seconds", false)
		time.Sleep(time.Millisecond)
		expect("three seconds after the first of many failures", true)
		time.Sleep(time.Second)
		o.Failed(errors.New("reset"))
		want := `has been failing for 4s: reset`
		if got := all.Causes()["node a"]; got != want {
			t.Errorf("cause = %q, want %q", got, want)
		}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(all)
		metric := func() float64 {
			families, err := registry.Gather()
			if err != nil || len(families) != 1 || families[0].GetName() != "tipcache_upstream_degraded" {
				t.Fatalf("metrics %v, %v", families, err)
			}
			return families[0].GetMetric()[0].GetGauge().GetValue()
		}
		if got := metric(); got != 1 {
			t.Errorf("metric = %v, want 1", got)
		}
		o.End()
		o.End()
		expect("after a request that completed", false)
		if got := metric(); got != 0 {
			t.Errorf("metric = %v, want 0", got)
		}
		wantLines := []string{
			`level=WARN msg="upstream unreachable" origin="node a" error=refused`,
			`level=INFO msg="upstream reachable again" origin="node a" after=1s`,
		}
		if diff := cmp.Diff(wantLines, lines(&log)); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}
