package cache_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

// The fault begins during the read of the origin, so it affects the write of the entry.
func TestFailedWriteCostsAtMostOneMoreOriginRead(t *testing.T) {
	t.Parallel()
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	tests := []struct {
		name      string
		fault     func(*proxy)
		lease     time.Duration
		wantB     string // result of the other replica
		wantCalls int64
	}{
		{"other replica reads after the lease if nothing was written", (*proxy).dropRequests, 300 * time.Millisecond, "miss uri-miss: x at 100", 2},
		{"other replica finds the entry if only the reply was lost", (*proxy).dropReplies, time.Hour, "hit shared: x at 100", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startRedis(t)
			link := startProxy(t, s.addr)
			o := redis.Options{Lease: tt.lease}
			a, b := startReplica(t, link.addr, o), startReplica(t, s.addr, o)
			// The first write loads the script, so that the fault affects a write and not the reply NOSCRIPT.
			mustGet(t, a, cache.Query{Key: "another", Policy: live, Tip: 100}, answer(100, page))
			waitForIdle(t, a)
			var calls atomic.Int64
			origin := func(fault func()) originFunc {
				return func(context.Context, *cache.Entry) (*cache.Entry, error) {
					calls.Add(1)
					fault()
					return entry(100, "x"), nil
				}
			}
			resA := mustGet(t, a, q, origin(func() { tt.fault(link) }))
			expect.Equal(t, describe(resA, nil), "miss uri-miss: x at 100", "result of the replica with the fault")
			expect.EventuallyAtLeast(t, "the fault is counted", func() int { return metric(t, a, "shared_errors_total") }, 1)
			expect.Equal(t, describe(mustGet(t, b, q, origin(func() {})), nil), tt.wantB, "result of the other replica")
			expect.Equal(t, calls.Load(), tt.wantCalls, "calls of the origin")
			link.heal()
			expect.Equal(t, describe(mustGet(t, a, q, nil), nil), "hit memory: x at 100", "next result of the replica with the fault")
		})
	}
}

// A lease belongs to its flight even if the reply that grants it is lost, whether the client retries or gives up.
func TestLeaseWithLostGrantIsUsed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		fault func(*proxy)
	}{
		{"the second try succeeds", (*proxy).dropReply},
		{"no try succeeds, and the write releases the lease", (*proxy).dropReplies},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startRedis(t)
			link := startProxy(t, s.addr)
			a := startReplica(t, link.addr, redis.Options{Lease: time.Hour})
			b := startReplica(t, s.addr, redis.Options{})
			q := cache.Query{Key: "k", Policy: live, Tip: 100}
			mustGet(t, a, q, answer(100, []byte("old"))) // otherwise the flight would first read Redis without a lease
			waitForIdle(t, a)
			q.Tip = 150
			tt.fault(link)
			res := mustGet(t, a, q, func(context.Context, *cache.Entry) (*cache.Entry, error) {
				link.heal()
				return entry(150, "x"), nil
			})
			expect.Equal(t, describe(res, nil), "miss stale: x at 150", "result of the replica with the fault")
			expect.Equal(t, describe(mustGet(t, b, q, answer(150, []byte("y"))), nil), "hit shared: x at 150", "result of the other replica")
		})
	}
}
