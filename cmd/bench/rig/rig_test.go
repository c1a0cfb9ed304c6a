package rig

import (
	"os"
	"testing"

	"github.com/prometheus/procfs"
)

func TestUsageOfThisProcess(t *testing.T) {
	u, err := usageOf(os.Getpid())
	if err != nil || u.RSS < 1<<20 || u.FDs < 3 {
		t.Errorf("got %+v, %v", u, err)
	}
}

func TestDescends(t *testing.T) {
	stats := map[int]procfs.ProcStat{10: {PPID: 1}, 11: {PPID: 10}, 12: {PPID: 11}, 13: {PPID: 1}}
	for id, want := range map[int]bool{10: true, 11: true, 12: true, 13: false, 99: false} {
		if got := descends(stats, id, 10); got != want {
			t.Errorf("%d descends from 10: %v, want %v", id, got, want)
		}
	}
}

func TestSamplesAddUp(t *testing.T) {
	s := ParseSamples(`# HELP tipcache_cache_requests_total Finished requests.
tipcache_cache_requests_total{outcome="hit",store="memory"} 1.5e+06
tipcache_cache_requests_total{outcome="hit",store="shared"} 4
tipcache_cache_requests_total{outcome="miss",store="none"} 6
tipcache_cache_requests_total_other 9
go_goroutines 12
`)
	if got := s.Sum("tipcache_cache_requests_total"); got != 1500010 {
		t.Errorf("all: %v", got)
	}
	if got := s.Sum("tipcache_cache_requests_total", `outcome="hit"`, `store="memory"`); got != 1.5e6 {
		t.Errorf("hits in memory: %v", got)
	}
	if got := s.Sum("go_goroutines"); got != 12 {
		t.Errorf("without labels: %v", got)
	}
}
