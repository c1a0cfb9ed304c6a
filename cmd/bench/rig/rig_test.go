package rig

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestUsageIncludesChildProcesses(t *testing.T) {
	r := expect.Value(New(t.Context(), Options{Bin: "unused"}))(t)
	defer r.Close()
	p := r.Start(t.Context(), "parent", nil, "sh", "-c", "sleep 600 & sleep 600")
	p.Ready(t.Context(), func(context.Context) error {
		u, err := p.Usage()
		if err == nil && (u.FDs < 6 || u.RSS < 1<<20) { // at least standard input, output and error of two processes
			err = fmt.Errorf("usage = %+v, want at least 6 descriptors and 1 MiB", u)
		}
		return err
	})
	p.Kill()
	expect.NoError(t, Eventually(t.Context(), func(context.Context) error { // its children end later
		if u, err := p.Usage(); err == nil {
			return fmt.Errorf("usage of a killed process = %+v, want an error", u)
		}
		return nil
	}))
}

// The kernel's clock ticks every 10 ms.
func TestCPUTimeIsExact(t *testing.T) {
	r := expect.Value(New(t.Context(), Options{Bin: "unused"}))(t)
	defer r.Close()
	p := r.Start(t.Context(), "short", nil, "sleep", "600")
	got := expect.Value(p.Usage())(t).CPU
	if got <= 0 || got%(10*time.Millisecond) == 0 {
		t.Errorf("CPU time = %v, want a time that is not in steps of 10ms", got)
	}
}

func TestSumAddsSamplesWithLabels(t *testing.T) {
	s := ParseSamples(`# HELP tipcache_cache_requests_total Finished requests.
tipcache_cache_requests_total{outcome="hit",store="memory"} 1.5e+06
tipcache_cache_requests_total{outcome="hit",store="shared"} 4
tipcache_cache_requests_total{outcome="miss",store="none"} 6
tipcache_cache_requests_total_other 9
go_goroutines 12
`)
	expect.Equal(t, s.Sum("tipcache_cache_requests_total"), 1500010, "sum of all series")
	expect.Equal(t, s.Sum("tipcache_cache_requests_total", `outcome="hit"`, `store="memory"`), 1.5e6, "hits in memory")
	expect.Equal(t, s.Sum("go_goroutines"), 12, "sum without labels")
}

// No server listens on the addresses yet.
func TestNoAddressIsGivenOutTwice(t *testing.T) {
	given := map[string]bool{}
	for range 500 {
		addr := FreeAddr()
		if given[addr] {
			t.Fatalf("FreeAddr = %s for a second time", addr)
		}
		given[addr] = true
	}
}

func TestPartEndsAtFirstFailure(t *testing.T) {
	wrong, ended := errors.New("wrong"), false
	err := Try(func() {
		defer func() { ended = true }()
		expect.Equal(t, Must(1, nil), 1, "Must(1, nil)")
		Must(0, wrong)
		t.Error("Must returned after an error")
	})
	if !errors.Is(err, wrong) || !ended {
		t.Errorf("Try = %v with deferred call %t, want %v and true", err, ended, wrong)
	}
	expect.NoError(t, Try(func() {}))
}
