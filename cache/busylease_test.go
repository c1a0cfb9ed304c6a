package cache_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// busyStore returns a shared store without entries in which another replica holds and renews all leases.
func busyStore() *fakeShared {
	s := newFakeShared()
	s.acquire = func(cache.Subscriber) (cache.LeaseReply, error) {
		return cache.LeaseReply{State: cache.LeaseBusy, Left: 3 * time.Second}, nil
	}
	return s
}

func TestLeasesAreIgnoredAfterSeveralWaitsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logtest.Log{}
		s := busyStore()
		c := newCacheWith(t, s, cache.Options{FlightTimeout: 10 * time.Second, OriginTimeout: 6 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))})
		tip := int64(100)
		want := func(took time.Duration) {
			t.Helper()
			tip += 1000
			checkGet(t, c, cache.Query{Key: "cold", Policy: live, Tip: tip}, answer(tip, page), cache.Miss, tip, took)
		}
		for range 5 {
			want(4 * time.Second)
		}
		for range 3 {
			want(0)
		}
		expect.Equal(t, strings.Count(log.String(), "ignoring other replicas"), 1, "log lines about ignored replicas in %s", log)
		time.Sleep(time.Minute + time.Second)
		want(4 * time.Second)
		want(0)
		time.Sleep(time.Minute + time.Second)
		s.acquire = func(to cache.Subscriber) (cache.LeaseReply, error) {
			time.AfterFunc(time.Second, func() { to.Notify("cold", false) })
			return cache.LeaseReply{State: cache.LeaseBusy, Left: 3 * time.Second}, nil
		}
		want(time.Second)
		want(time.Second)
		expect.Equal(t, strings.Count(log.String(), "waiting for other replicas"), 1, "log lines about the end of that in %s", log)
	})
}

// Callers of a hot key are served its stale entry while another replica holds the lease.
func TestStaleKeyIsReadWhileAnotherReplicaHoldsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCacheWith(t, busyStore(), cache.Options{})
		q := cache.Query{Key: "hot", Policy: cache.Policy{StaleBlocks: 1000, Keep: time.Hour}, Tip: 100}
		mustGet(t, c, q, answer(100, page))
		for range 60 {
			time.Sleep(time.Second)
			q.Tip++
			if res := mustGet(t, c, q, answer(q.Tip, page)); q.Tip-res.Entry.Height > 12 {
				t.Fatalf("entry is %d blocks behind, want at most 12", q.Tip-res.Entry.Height)
			}
		}
	})
}

func TestUnsignedLeaseIsNotAwaited(t *testing.T) {
	const at = "tipcache:2:{story-1:k}:l"
	key := []byte("a key of replicas")
	long := redis.Options{Settings: redis.Settings{SealKey: string(key)}, Lease: time.Hour}
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	// copyToken returns the token of a replica that holds the lease of a key.
	copyToken := func(t *testing.T, addr, key string, so redis.Options, o cache.Options) string {
		c := newReplica(t, addr, o, so)
		answers, done := holdLease(t, c, cache.Query{Key: key, Policy: live, Tip: 100})
		token := redistest.Client(t, addr).Get(t.Context(), "tipcache:2:{story-1:"+key+"}:l").Val()
		answers <- nil
		<-done
		waitForIdle(t, c)
		if token == "" {
			t.Fatal("no replica acquired the lease")
		}
		expect.NoError(t, redistest.Client(t, addr).FlushAll(t.Context()).Err())
		return token
	}
	for name, token := range map[string]func(t *testing.T, addr string) string{
		"arbitrary text": func(*testing.T, string) string { return "somebody" },
		"of a replica without the seal key": func(t *testing.T, addr string) string {
			return copyToken(t, addr, "k", redis.Options{Lease: time.Hour}, cache.Options{})
		},
		"of another key": func(t *testing.T, addr string) string { return copyToken(t, addr, "other", long, cache.Options{}) },
		"of two minutes ago": func(t *testing.T, addr string) string {
			return copyToken(t, addr, "k", long, cache.Options{Now: func() time.Time { return time.Now().Add(-2 * time.Minute) }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			addr := startRedis(t).addr
			rdb, holder := redistest.Client(t, addr), token(t, addr)
			c := startReplica(t, addr, long)
			expect.NoError(t, rdb.Set(t.Context(), at, holder, time.Hour).Err())
			expect.Equal(t, describe(mustGet(t, c, q, answer(100, []byte("x"))), nil), "miss uri-miss: x at 100", "result")
			waitForIdle(t, c)
			if rdb.Exists(t.Context(), at).Val() != 0 {
				t.Error("unsigned lease still exists, want it acquired and released")
			}
		})
	}
	for name, tt := range map[string]struct{ age, flight time.Duration }{
		"a new token of the same key is awaited":                       {0, 0},
		"a token of two minutes ago is awaited if flights last longer": {2 * time.Minute, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			addr := startRedis(t).addr
			token := copyToken(t, addr, "k", long, cache.Options{Now: func() time.Time { return time.Now().Add(-tt.age) }})
			so := long
			so.FlightTimeout = tt.flight
			c := startReplica(t, addr, so)
			expect.NoError(t, redistest.Client(t, addr).Set(t.Context(), at, token, time.Hour).Err())
			got := startFollower(t, c, q)
			if len(got) > 0 {
				t.Fatalf("got %s at once, want a wait for the lease", describe(<-got, nil))
			}
			_ = redistest.Client(t, addr).Publish(t.Context(), "tipcache:2:story-1", "-k").Err()
			<-got
		})
	}
}
