package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const wrkOutput = `Running 2s test @ http://127.0.0.1:8101/staking/params
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   498.19us  210.33us   6.01ms   93.26%
    Req/Sec   129.91k     5.51k  137.12k    85.00%
  Latency Distribution
     50%  470.00us
     75%  542.00us
     90%  631.00us
     99%    1.21ms
  258497 requests in 2.00s, 230.51MB read
Requests/sec: 129087.22
Transfer/sec:    115.11MB
`

func TestParseWrk(t *testing.T) {
	for name, tt := range map[string]struct {
		text, err string
	}{
		"a good run":                  {wrkOutput, ""},
		"answers that are errors":     {wrkOutput + "  Non-2xx or 3xx responses: 12\n", "Non-2xx or 3xx responses: 12"},
		"lost connections":            {wrkOutput + "  Socket errors: connect 0, read 3, write 0, timeout 0\n", "Socket errors: connect 0, read 3, write 0, timeout 0"},
		"text that is not wrk's":      {"unable to connect", "unable to connect"},
		"a run that answered nothing": {strings.ReplaceAll(wrkOutput, "258497", "0"), "nothing was answered"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseWrk(tt.text)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q in it", err, tt.err)
				}
				return
			}
			want := loaded{requests: 258497, perSecond: 129087.22, p50: 470 * time.Microsecond, p99: 1210 * time.Microsecond}
			if err != nil || got != want {
				t.Fatalf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	text := "4242 (nginx: (wor) ker) S 41 4242 4242 0 -1 4194560 1510 0 3 0 250 130 7 9 20 0 1 0 81717 12345678 640 18446744073709551615 1 1 0\n"
	got, err := parseStat(text)
	want := procStat{parent: 41, cpu: 3800 * time.Millisecond, pages: 640}
	if err != nil || got != want {
		t.Fatalf("got %+v, %v; want %+v", got, err, want)
	}
	if _, err := parseStat("1 (x) S 0"); err == nil {
		t.Error("a short line is no error")
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	u, err := usageOf(os.Getpid())
	if err != nil || u.rss < 1<<20 || u.fds < 3 {
		t.Errorf("got %+v, %v", u, err)
	}
}

func TestDescends(t *testing.T) {
	stats := map[int]procStat{10: {parent: 1}, 11: {parent: 10}, 12: {parent: 11}, 13: {parent: 1}}
	for id, want := range map[int]bool{10: true, 11: true, 12: true, 13: false, 99: false} {
		if got := descends(stats, id, 10); got != want {
			t.Errorf("%d descends from 10: %v, want %v", id, got, want)
		}
	}
}

func TestSamplesAddUp(t *testing.T) {
	s := parseSamples(`# HELP tipcache_cache_requests_total Finished requests.
tipcache_cache_requests_total{outcome="hit",store="memory"} 1.5e+06
tipcache_cache_requests_total{outcome="hit",store="shared"} 4
tipcache_cache_requests_total{outcome="miss",store="none"} 6
tipcache_cache_requests_total_other 9
go_goroutines 12
`)
	if got := s.sum("tipcache_cache_requests_total"); got != 1500010 {
		t.Errorf("all: %v", got)
	}
	if got := s.sum("tipcache_cache_requests_total", `outcome="hit"`, `store="memory"`); got != 1.5e6 {
		t.Errorf("hits in memory: %v", got)
	}
	if got := s.sum("go_goroutines"); got != 12 {
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
