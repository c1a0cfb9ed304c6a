package cache_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// taken is a shared store all of whose leases another one holds and renews, of which
// nothing comes.
func taken() *sharedFunc {
	return &sharedFunc{
		read: func() (*cache.Entry, error) { return nil, nil },
		acquire: func(cache.Subscriber) (cache.LeaseReply, error) {
			return cache.LeaseReply{State: cache.LeaseBusy, Left: 3 * time.Second}, nil
		},
		settle: func() error { return nil },
	}
}

func TestFruitlessLeasesAreAwaitedAFewTimesAndThenIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logtest.Log{}
		s := taken()
		s.subscriber = make(chan cache.Subscriber, 1)
		s.newLease = func(cache.Subscriber) {}
		c := newCache(t, cache.Options{Shared: s, FlightTimeout: 10 * time.Second, OriginTimeout: 6 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))})
		c.SetNamespace("story-1")
		tip := int64(100)
		want := func(took time.Duration) {
			t.Helper()
			tip += 1000
			timed(t, c, cache.Query{Key: "cold", Policy: live, Tip: tip}, answer(tip, page), cache.Miss, tip, took)
		}
		for range 5 {
			want(4 * time.Second)
		}
		for range 3 {
			want(0)
		}
		if n := strings.Count(log.String(), "ignoring other replicas"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, log)
		}
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
		if n := strings.Count(log.String(), "waiting for other replicas"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, log)
		}
	})
}

// A hot key has an answer at hand while others hold its lease; it must not fall behind.
func TestKeyIsReadAgainWhileOthersHoldItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := taken()
		c := shareWith(t, s)
		q := cache.Query{Key: "hot", Policy: cache.Policy{StaleBlocks: 1000, Keep: time.Hour}, Tip: 100}
		mustGet(t, c, q, answer(100, page))
		for range 60 {
			time.Sleep(time.Second)
			q.Tip++
			if res := mustGet(t, c, q, answer(q.Tip, page)); q.Tip-res.Entry.Height > 12 {
				t.Fatalf("%d blocks behind, want at most 12", q.Tip-res.Entry.Height)
			}
		}
	})
}

func TestUnsignedLeaseIsNotAwaited(t *testing.T) {
	const at = "tipcache:1:{story-1:k}:l"
	key := []byte("a key of replicas")
	long := redis.Options{Lease: time.Hour, SealKey: key}
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	// stolen is the token of a replica that holds the lease of a key.
	stolen := func(t *testing.T, addr, key string, so redis.Options, o cache.Options) string {
		c := sharing(t, client(t, addr), o, so)
		c.SetNamespace("story-1")
		of := q
		of.Key = key
		answers, done := hold(t, c, of)
		token := client(t, addr).Get(t.Context(), "tipcache:1:{story-1:"+key+"}:l").Val()
		answers <- nil
		<-done
		idle(t, c)
		if token == "" {
			t.Fatal("no replica acquired the lease")
		}
		expect.NoError(t, client(t, addr).FlushAll(t.Context()).Err())
		return token
	}
	for name, token := range map[string]func(t *testing.T, addr string) string{
		"anybody's": func(*testing.T, string) string { return "somebody" },
		"of a replica without the key": func(t *testing.T, addr string) string {
			return stolen(t, addr, "k", redis.Options{Lease: time.Hour}, cache.Options{})
		},
		"of another key": func(t *testing.T, addr string) string { return stolen(t, addr, "other", long, cache.Options{}) },
		"of two minutes ago": func(t *testing.T, addr string) string {
			return stolen(t, addr, "k", long, cache.Options{Now: func() time.Time { return time.Now().Add(-2 * time.Minute) }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			addr := startRedis(t).addr
			rdb, holder := client(t, addr), token(t, addr)
			c := replica(t, addr, long)
			expect.NoError(t, rdb.Set(t.Context(), at, holder, time.Hour).Err())
			if line := tell(mustGet(t, c, q, answer(100, []byte("x"))), nil); line != "miss uri-miss: x at 100" {
				t.Errorf("got %s, want miss uri-miss: x at 100", line)
			}
			idle(t, c)
			if rdb.Exists(t.Context(), at).Val() != 0 {
				t.Error("lease was not acquired after its holder failed")
			}
		})
	}
	t.Run("but for one of now it does", func(t *testing.T) {
		addr := startRedis(t).addr
		token := stolen(t, addr, "k", long, cache.Options{})
		c := replica(t, addr, long)
		expect.NoError(t, client(t, addr).Set(t.Context(), at, token, time.Hour).Err())
		got := follow(t, c, q)
		if len(got) > 0 {
			t.Errorf("got %s at once, want a wait for the lease", tell(<-got, nil))
			return
		}
		_ = client(t, addr).Publish(t.Context(), "tipcache:1:story-1", "-k").Err()
		<-got
	})
}
