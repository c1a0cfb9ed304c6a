package cache_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
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
