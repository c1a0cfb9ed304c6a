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

// A fault hits a replica at the moment it writes what the origin gave it.
func TestWriteFaults(t *testing.T) {
	t.Parallel()
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	tests := []struct {
		name      string
		fault     func(*proxy)
		lease     time.Duration
		wantB     string // what the other replica gets
		wantCalls int64
	}{
		{"not written: the others fetch once the lease has expired", (*proxy).dropRequests, 300 * time.Millisecond, "miss uri-miss: x at 100", 2},
		{"written, but the reply was lost: the others have it", (*proxy).dropReplies, time.Hour, "hit shared: x at 100", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startRedis(t)
			way := startProxy(t, s.addr)
			o := redis.Options{Lease: tt.lease}
			a, b := replica(t, way.addr, o), replica(t, s.addr, o)
			// The store has to know the scripts: what is lost is to be a write,
			// not the word that a script is unknown.
			mustGet(t, a, cache.Query{Key: "another", Policy: live, Tip: 100}, answer(100, page))
			idle(t, a)
			var calls atomic.Int64
			origin := func(fault func()) cache.Origin {
				return func(context.Context, *cache.Entry) (*cache.Entry, error) {
					calls.Add(1)
					fault()
					return entry(100, "x"), nil
				}
			}
			resA := mustGet(t, a, q, origin(func() { tt.fault(way) }))
			if got := tell(resA, nil); got != "miss uri-miss: x at 100" {
				t.Errorf("the replica with the fault got %s, want miss uri-miss: x at 100", got)
			}
			expect.Eventually(t, "the fault is counted", func() bool { return metric(t, a, "shared_errors_total") > 0 })
			if got := tell(mustGet(t, b, q, origin(func() {})), nil); got != tt.wantB {
				t.Errorf("the other replica got %s, want %s", got, tt.wantB)
			}
			if calls.Load() != tt.wantCalls {
				t.Errorf("%d calls of the origin, want %d", calls.Load(), tt.wantCalls)
			}
			way.heal()
			if got := tell(mustGet(t, a, q, nil), nil); got != "hit memory: x at 100" {
				t.Errorf("the replica with the fault then got %s, want hit memory: x at 100", got)
			}
		})
	}
}

// A lease whose grant got lost is still this flight's, whether the client tries
// again or gives up.
func TestLeaseWithLostGrant(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		fault func(*proxy)
	}{
		{"the second try finds it", (*proxy).dropReply},
		{"after no reply at all it is given back with the write", (*proxy).dropReplies},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startRedis(t)
			way := startProxy(t, s.addr)
			a := replica(t, way.addr, redis.Options{Lease: time.Hour})
			b := replica(t, s.addr, redis.Options{})
			q := cache.Query{Key: "k", Policy: live, Tip: 100}
			mustGet(t, a, q, answer(100, []byte("old"))) // what memory has is not looked for without a lease
			idle(t, a)
			q.Tip = 150
			tt.fault(way)
			res := mustGet(t, a, q, func(context.Context, *cache.Entry) (*cache.Entry, error) {
				way.heal()
				return entry(150, "x"), nil
			})
			if got := tell(res, nil); got != "miss stale: x at 150" {
				t.Errorf("the replica with the fault got %s, want miss stale: x at 150", got)
			}
			if got := tell(mustGet(t, b, q, answer(150, []byte("y"))), nil); got != "hit shared: x at 150" {
				t.Errorf("the other replica got %s, want hit shared: x at 150", got)
			}
		})
	}
}

// What is confirmed without its body must not be joined to another's body.
func TestConfirmationDuringChangeOfContent(t *testing.T) {
	t.Parallel()
	addr := startRedis(t).addr
	a, b, c := replica(t, addr, redis.Options{}), replica(t, addr, redis.Options{}), replica(t, addr, redis.Options{})
	mustGet(t, a, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, []byte("x")))
	mustGet(t, a, cache.Query{Key: "k", Policy: live, Tip: 120}, func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
		b.Save(ctx, map[string]*cache.Entry{"k": entry(110, "y")}, time.Hour)
		return prev.Confirm(120, time.Now()), nil
	})
	idle(t, a)
	if got := tell(mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 120}, nil), nil); got != "hit shared: x at 120" {
		t.Errorf("a third replica got %s, want hit shared: x at 120", got)
	}
}

func TestWriteNeverLowersTheHeight(t *testing.T) {
	addr := startRedis(t).addr
	late, early := replica(t, addr, redis.Options{}), replica(t, addr, redis.Options{})
	// The late one has read at 100, but is held up until 102 is stored.
	ctx := t.Context()
	mustGet(t, late, cache.Query{Key: "k", Policy: live, Tip: 100}, func(context.Context, *cache.Entry) (*cache.Entry, error) {
		early.Save(ctx, map[string]*cache.Entry{"k": entry(102, "new")}, time.Hour)
		return entry(100, "old"), nil
	})
	idle(t, late)
	third := replica(t, addr, redis.Options{})
	if got := tell(mustGet(t, third, cache.Query{Key: "k", Policy: live, Tip: 102}, nil), nil); got != "hit shared: new at 102" {
		t.Errorf("a third replica got %s, want hit shared: new at 102", got)
	}
}
