package limits_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// sharing returns an admission whose addresses share their limit in a Redis.
func sharing(t *testing.T, server *miniredis.Miniredis, namespace string, log *slog.Logger) *limits.Admission {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	a := limits.New(limits.Shared{Redis: c, Namespace: func() string { return namespace }}, log, prometheus.NewRegistry())
	a.Limits.Store(&limits.Limits{Address: perHour})
	return a
}

func admitted(t *testing.T, a *limits.Admission, requests int) (n int) {
	t.Helper()
	for range requests {
		if a.Admit(t.Context(), &limits.Client{Address: client}, http.Header{}) == nil {
			n++
		}
	}
	return n
}

func TestOnlyReplicasOfSameChainShareLimit(t *testing.T) {
	server, quiet := miniredis.RunT(t), slog.New(slog.DiscardHandler)
	one, same, another := sharing(t, server, "story-1", quiet), sharing(t, server, "story-1", quiet), sharing(t, server, "story:1", quiet)
	got := []int{admitted(t, one, 1), admitted(t, same, 3), admitted(t, one, 3), admitted(t, another, 3)}
	expect.NoDiff(t, got, []int{1, 1, 0, 2}, "admitted")
	if !one.SharesAddresses() || one.WouldAdmit(&limits.Client{Address: other}, time.Now()) {
		t.Error("WouldAdmit = true without reading the limit in Redis")
	}
	one.Limits.Store(&limits.Limits{})
	if one.SharesAddresses() {
		t.Error("addresses without a limit share one")
	}
}

func TestRequestOverLocalLimitDoesNotReachRedis(t *testing.T) {
	server := miniredis.RunT(t)
	a := sharing(t, server, "", slog.New(slog.DiscardHandler))
	admitted(t, a, 2)
	before := server.CommandCount()
	if got := admitted(t, a, 10); got != 0 || server.CommandCount() != before {
		t.Errorf("%d of 10 requests pass, with %d commands of Redis; want none of both", got, server.CommandCount()-before)
	}
}

func TestLocalLimitDecidesWhileRedisFails(t *testing.T) {
	server, log := miniredis.RunT(t), new(logtest.Log)
	a := sharing(t, server, "", slog.New(slog.NewTextHandler(log, nil)))
	a.Limits.Store(&limits.Limits{Address: limits.Rate{Requests: 10, Per: time.Hour, Burst: 10}})
	server.SetError("LOADING Redis is loading the dataset in memory")
	before := server.CommandCount()
	expect.Equal(t, admitted(t, a, 12), 10, "requests of 12 that pass")
	if asked := server.CommandCount() - before; asked > 6 { // by three requests, each by the script's hash and then its text
		t.Errorf("Redis got %d commands while it failed, want those of three requests", asked)
	}
	if got := log.Count("shared limits"); got != 1 {
		t.Errorf("the outage has %d lines in the log, want 1:\n%s", got, log)
	}
}

func TestDeadlineOfClientIsNoFailureOfRedis(t *testing.T) {
	server, log := miniredis.RunT(t), new(logtest.Log)
	a := sharing(t, server, "", slog.New(slog.NewTextHandler(log, nil)))
	a.Limits.Store(&limits.Limits{Address: limits.Rate{Requests: 10, Per: time.Hour, Burst: 10}})
	ended, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for range 5 {
		_ = a.Admit(ended, &limits.Client{Address: client}, http.Header{})
	}
	expect.Equal(t, admitted(t, a, 10), 5, "requests that pass after five of a client without time")
	expect.Equal(t, log.Count("shared limits"), 0, "log lines about the shared limits")
}

// Other processes can write to Redis: what no bucket of this rate can hold is no reason to refuse.
func TestImplausibleSharedBucketIsIgnored(t *testing.T) {
	server := miniredis.RunT(t)
	a := sharing(t, server, "", slog.New(slog.DiscardHandler))
	admitted(t, a, 1)
	keys := server.Keys()
	if len(keys) != 1 {
		t.Fatalf("keys %q, want one", keys)
	}
	_ = server.Set(keys[0], fmt.Sprint(time.Now().Add(1000*time.Hour).Unix()))
	if got := admitted(t, a, 3); got != 1 {
		t.Errorf("%d of 3 requests pass, want the one that this process has left", got)
	}
}
