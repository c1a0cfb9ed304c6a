package rig

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestUsageIsOfAProcessAndItsChildren(t *testing.T) {
	r := expect.Value(New(t.Context(), Options{Bin: "unused"}))(t)
	defer r.Close()
	p := r.Start(t.Context(), "parent", nil, "sh", "-c", "sleep 600 & sleep 600")
	p.Ready(t.Context(), func(context.Context) error {
		u, err := p.Usage()
		if err == nil && (u.FDs < 6 || u.RSS < 1<<20) { // standard input, output and error of two processes at least
			err = fmt.Errorf("got %+v", u)
		}
		return err
	})
	p.Kill()
	if err := Eventually(t.Context(), func(context.Context) error { // its children end on their own
		if u, err := p.Usage(); err == nil {
			return fmt.Errorf("got %+v of a process that is gone", u)
		}
		return nil
	}); err != nil {
		t.Error(err)
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
	expect.Equal(t, s.Sum("tipcache_cache_requests_total"), 1500010, "sum of all series")
	expect.Equal(t, s.Sum("tipcache_cache_requests_total", `outcome="hit"`, `store="memory"`), 1.5e6, "hits in memory")
	expect.Equal(t, s.Sum("go_goroutines"), 12, "sum without labels")
}

// None of them is listened on yet, as of servers that are about to start.
func TestNoAddressIsGivenOutTwice(t *testing.T) {
	given := map[string]bool{}
	for range 500 {
		addr := FreeAddr()
		if given[addr] {
			t.Fatalf("%s was given out before", addr)
		}
		given[addr] = true
	}
}

func TestPartEndsAtFirstFailure(t *testing.T) {
	wrong, ended := errors.New("wrong"), false
	err := Try(func() {
		defer func() { ended = true }()
		if got := Must(1, nil); got != 1 {
			t.Errorf("got %d", got)
		}
		Must(0, wrong)
		t.Error("Must returned after an error")
	})
	if !errors.Is(err, wrong) || !ended {
		t.Errorf("got %v, ended: %v", err, ended)
	}
	expect.NoError(t, Try(func() {}))
}
