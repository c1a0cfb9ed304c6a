package rig

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestVersionIn(t *testing.T) {
	got := map[string]string{}
	for _, text := range []string{
		"nginx version: nginx/1.22.1\n", "varnishd (varnish-7.1.1 revision 7cee1c5)\n", "wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012",
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0", "initdb (PostgreSQL) 15.8 (Debian 15.8-0)", "none",
	} {
		got[strings.Fields(text)[0]] = versionIn(text)
	}
	want := map[string]string{
		"nginx": "1.22.1", "varnishd": "7.1.1", "wrk": "4.1.0", "Redis": "7.0.15", "initdb": "15.8", "none": "of unknown version",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
