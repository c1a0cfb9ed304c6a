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

	tipredis "github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// newSharedAdmission returns an admission that shares the limit of each address in Redis.
func newSharedAdmission(t *testing.T, server *miniredis.Miniredis, namespace string, log *slog.Logger) *limits.Admission {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	a := limits.New(limits.Shared{Redis: expect.Value(tipredis.New(c, tipredis.Options{}))(t), Namespace: func() string { return namespace }}, log, prometheus.NewRegistry())
	a.Limits.Store(&limits.Limits{Address: perHour})
	return a
}

// countAdmitted sends requests of one address, and returns how many of them are admitted.
func countAdmitted(t *testing.T, a *limits.Admission, requests int) (n int) {
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
	one, same, another := newSharedAdmission(t, server, "story-1", quiet), newSharedAdmission(t, server, "story-1", quiet), newSharedAdmission(t, server, "story:1", quiet)
	got := []int{countAdmitted(t, one, 1), countAdmitted(t, same, 3), countAdmitted(t, one, 3), countAdmitted(t, another, 3)}
	expect.NoDiff(t, got, []int{1, 1, 0, 2}, "admitted")
	if !one.AsksRedis(perHour) || one.WouldAdmit(&limits.Client{Address: other}, limits.Charge{}, time.Now()) {
		t.Error("AsksRedis = false, or WouldAdmit = true without a read of Redis; want true and false")
	}
	one.Limits.Store(&limits.Limits{Address: limits.Rate{Requests: 60, Per: time.Minute, Burst: 1}})
	if one.AsksRedis(one.Limits.Load().Address) || one.AsksRedis(limits.Rate{}) || !one.WouldAdmit(&limits.Client{Address: other}, limits.Charge{}, time.Now()) {
		t.Error("AsksRedis = true, or WouldAdmit = false for one request per second, want false and true")
	}
}

func TestRequestOverLocalLimitDoesNotReachRedis(t *testing.T) {
	server := miniredis.RunT(t)
	a := newSharedAdmission(t, server, "", slog.New(slog.DiscardHandler))
	countAdmitted(t, a, 2)
	before := server.CommandCount()
	if got := countAdmitted(t, a, 10); got != 0 || server.CommandCount() != before {
		t.Errorf("%d of 10 requests admitted with %d Redis commands, want 0 with 0", got, server.CommandCount()-before)
	}
}

func TestLocalLimitDecidesWhileRedisFails(t *testing.T) {
	server, log := miniredis.RunT(t), new(logtest.Log)
	a := newSharedAdmission(t, server, "", slog.New(slog.NewTextHandler(log, nil)))
	a.Limits.Store(&limits.Limits{Address: limits.Rate{Requests: 10, Per: time.Hour, Burst: 10}})
	server.SetError("LOADING Redis is loading the dataset in memory")
	before := server.CommandCount()
	expect.Equal(t, countAdmitted(t, a, 12), 10, "admitted requests of 12")
	if commands := server.CommandCount() - before; commands > 6 { // three requests, each with the script's hash and then its text
		t.Errorf("Redis commands during the outage = %d, want at most 6", commands)
	}
	if got := log.Count("shared limits"); got != 1 {
		t.Errorf("log lines about the outage = %d, want 1:\n%s", got, log)
	}
}

func TestDeadlineOfClientIsNotAFailureOfRedis(t *testing.T) {
	server, log := miniredis.RunT(t), new(logtest.Log)
	a := newSharedAdmission(t, server, "", slog.New(slog.NewTextHandler(log, nil)))
	a.Limits.Store(&limits.Limits{Address: limits.Rate{Requests: 10, Per: time.Hour, Burst: 10}})
	ended, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for range 5 {
		_ = a.Admit(ended, &limits.Client{Address: client}, http.Header{})
	}
	expect.Equal(t, countAdmitted(t, a, 10), 5, "requests admitted after five whose deadline had passed")
	expect.Equal(t, log.Count("shared limits"), 0, "log lines about the shared limits")
}

// Other processes can write to Redis. A value that no bucket of this rate can have must not refuse requests.
func TestImplausibleSharedBucketIsIgnored(t *testing.T) {
	server := miniredis.RunT(t)
	a := newSharedAdmission(t, server, "", slog.New(slog.DiscardHandler))
	countAdmitted(t, a, 1)
	keys := server.Keys()
	if len(keys) != 1 {
		t.Fatalf("keys in Redis = %q, want one", keys)
	}
	_ = server.Set(keys[0], fmt.Sprint(time.Now().Add(1000*time.Hour).Unix()))
	expect.Equal(t, countAdmitted(t, a, 3), 1, "requests of 3 that the local limit admits")
}
