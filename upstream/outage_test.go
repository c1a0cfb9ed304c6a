package upstream_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestOutageEndsWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := upstream.NewOutage(slog.New(slog.NewTextHandler(&log, nil)), "node a")
		o.Begin(errors.New("refused"))
		time.Sleep(5*time.Minute - time.Second)
		expect.Equal(t, o.Cause() != nil, true, "degraded 5 minutes after the last failure, less a second")
		time.Sleep(time.Second)
		expect.Equal(t, o.Cause() != nil, false, "degraded 5 minutes after the last failure")
		expect.Contains(t, log.String(), "no longer degraded", "log")
		o.Record(errors.New("refused"))
		expect.Equal(t, o.Cause() != nil, false, "degraded after one more failure")
	})
}

func TestOutageBeginsAfterThreeFailuresInThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := upstream.NewOutage(slog.New(slog.NewTextHandler(&log, nil)), "node a")
		all, refused := upstream.Outages{o}, errors.New("refused")
		check := func(when string, degraded bool) {
			t.Helper()
			expect.Equal(t, o.Cause() != nil, degraded, "%s: degraded", when)
		}
		o.Record(refused)
		if !o.Failing() {
			t.Error("Failing = false after a failure, want true")
		}
		time.Sleep(10 * time.Second)
		o.Record(refused)
		check("after two failures in ten seconds", false)
		o.End()
		for range 100 {
			o.Record(refused)
		}
		time.Sleep(2999 * time.Millisecond)
		check("just before three seconds", false)
		time.Sleep(time.Millisecond)
		check("three seconds after the first of many failures", true)
		time.Sleep(time.Second)
		o.Record(errors.New("reset"))
		want := `has been failing for 4s: reset`
		expect.Equal(t, all.Causes()["node a"], want, "cause")
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(all)
		metric := func() float64 {
			families, err := registry.Gather()
			if err != nil || len(families) != 1 || families[0].GetName() != "tipcache_upstream_degraded" {
				t.Fatalf("metrics %v, %v", families, err)
			}
			return families[0].GetMetric()[0].GetGauge().GetValue()
		}
		expect.Equal(t, metric(), 1, "metric")
		o.End()
		o.End()
		check("after a request that completed", false)
		expect.Equal(t, metric(), 0, "metric")
		wantLines := []string{
			`level=WARN msg="upstream unreachable" origin="node a" error=refused`,
			`level=INFO msg="upstream reachable again" origin="node a" after=1s`,
		}
		expect.NoDiff(t, lines(&log), wantLines, "log")
	})
}

func TestUpstreamsWithOneNameAreOneMetric(t *testing.T) {
	newOutage := func() *upstream.Outage {
		return upstream.NewOutage(slog.New(slog.DiscardHandler), "execution client h")
	}
	all := upstream.Outages{newOutage(), newOutage(), newOutage()}
	all[1].Begin(errors.New("refused"))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(all)
	want := map[string]float64{"execution client h": 1}
	expect.NoDiff(t, expect.Metrics(t, registry, "tipcache_upstream_degraded"), want, "degraded upstreams")
}

func TestCauseOfAnOutageThatHasJustBegunHasNoDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := upstream.NewOutage(slog.New(slog.DiscardHandler), "certificate")
		o.Begin(errors.New("no such file"))
		expect.Equal(t, o.Cause().Error(), "has just failed: no such file", "cause")
		time.Sleep(time.Second)
		expect.Equal(t, o.Cause().Error(), "has been failing for 1s: no such file", "cause after a second")
	})
}
