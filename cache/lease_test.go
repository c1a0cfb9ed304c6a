package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

// replica returns a cache of a chain that shares a store, and listens.
func replica(t testing.TB, addr string, so redis.Options) *cache.Cache {
	t.Helper()
	return replicaOf(t, client(t, addr), so)
}

// named is a replica that knows the chain, and may not be subscribed yet.
func named(t testing.TB, addr string, o cache.Options, so redis.Options) *cache.Cache {
	t.Helper()
	c := sharing(t, client(t, addr), o, so)
	c.SetNamespace("story-1")
	return c
}

func replicaOf(t testing.TB, rdb goredis.UniversalClient, so redis.Options) *cache.Cache {
	t.Helper()
	c := sharing(t, rdb, cache.Options{}, so)
	c.SetNamespace("story-1")
	listening(t, rdb)
	return c
}

// listening waits until somebody is subscribed.
func listening(t testing.TB, rdb goredis.UniversalClient) {
	t.Helper()
	expect.Eventually(t, "a replica listens", func() bool {
		channels, err := rdb.PubSubChannels(t.Context(), "tipcache:*").Result()
		return err == nil && len(channels) > 0
	})
}

func TestOncePerKeyAndBlock(t *testing.T) {
	t.Parallel()
	const keys, callers, blocks = 8, 10, 6
	for _, stale := range []int64{0, 5} {
		t.Run(fmt.Sprintf("stale for %d blocks", stale), func(t *testing.T) {
			addr := startRedis(t).addr
			o := redis.Options{Lease: time.Minute} // which a busy machine renews in time
			replicas := []*cache.Cache{replica(t, addr, o), replica(t, addr, o)}
			policy := cache.Policy{StaleBlocks: stale, ErrorBlocks: 100, StaleIfError: time.Hour, Keep: time.Hour}
			var mu sync.Mutex
			calls := map[string]int{}
			for tip := int64(100); tip < 100+blocks; tip++ {
				var all sync.WaitGroup
				for i := range callers * keys * len(replicas) {
					key := fmt.Sprint("k", i%keys)
					origin := func(context.Context, *cache.Entry) (*cache.Entry, error) {
						time.Sleep(5 * time.Millisecond)
						mu.Lock()
						defer mu.Unlock()
						calls[fmt.Sprint(key, "@", tip)]++
						return entry(tip, key), nil
					}
					all.Go(func() {
						c := replicas[i/keys%len(replicas)]
						mustGet(t, c, cache.Query{Key: key, Policy: policy, Tip: tip}, origin)
					})
				}
				all.Wait()
				for _, c := range replicas {
					idle(t, c)
				}
			}
			if len(calls) != keys*blocks {
				t.Errorf("the origin was asked about %d keys and blocks, want %d", len(calls), keys*blocks)
			}
			for what, n := range calls {
				if n != 1 {
					t.Errorf("%s was asked for %d times, want once", what, n)
				}
			}
		})
	}
}

// hold has a replica ask an origin that does not answer, and returns once it is
// being asked. The answer is what is sent on the channel.
func hold(t *testing.T, c *cache.Cache, q cache.Query) (answers chan<- error, done <-chan error) {
	t.Helper()
	asked, answer, end := make(chan bool), make(chan error), make(chan error, 1)
	go func() {
		_, err := c.Get(context.Background(), q, func(ctx context.Context, _ *cache.Entry) (*cache.Entry, error) {
			close(asked)
			select {
			case err := <-answer:
				return entry(q.Tip, "of the holder"), err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		end <- err
	}()
	<-asked
	return answer, end
}

// follow has a replica ask for what another one is fetching, and returns once it
// waits for it, or no longer has to.
func follow(t *testing.T, c *cache.Cache, q cache.Query) <-chan cache.Result {
	t.Helper()
	got := make(chan cache.Result, 1)
	go func() { got <- mustGet(t, c, q, answer(q.Tip, []byte("of the follower"))) }()
	expect.Eventually(t, "the follower waits", func() bool { return metric(t, c, "lease_waiting") > 0 || len(got) > 0 })
	return got
}

func TestFollowersOfALease(t *testing.T) {
	t.Parallel()
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	short := redis.Options{Lease: 300 * time.Millisecond}
	long := redis.Options{Lease: time.Hour}

	for _, key := range []string{"", "a key of replicas"} {
		t.Run("are woken by the holder's answer, not by the end of the lease, with the key "+key, func(t *testing.T) {
			addr, o := startRedis(t).addr, redis.Options{Lease: time.Hour, SealKey: []byte(key)}
			a, b := replica(t, addr, o), replica(t, addr, o)
			mustWake(t, a, b, "k")
		})
	}
	t.Run("ask themselves when the holder's origin fails", func(t *testing.T) {
		addr := startRedis(t).addr
		a, b := replica(t, addr, long), replica(t, addr, long)
		answers, done := hold(t, a, q)
		got := follow(t, b, q)
		answers <- errDown
		if line := tell(<-got, nil); line != "miss uri-miss: of the follower at 100" {
			t.Errorf("follower got %s, want miss uri-miss: of the follower at 100", line)
		}
		if err := <-done; !errors.Is(err, errDown) {
			t.Errorf("the holder got %v, want %v", err, errDown)
		}
	})
	t.Run("ask themselves when the holder shuts down", func(t *testing.T) {
		addr := startRedis(t).addr
		a, b := replica(t, addr, long), replica(t, addr, long)
		hold(t, a, q)
		got := follow(t, b, q)
		_ = a.Close()
		if line := tell(<-got, nil); line != "miss uri-miss: of the follower at 100" {
			t.Errorf("follower got %s, want miss uri-miss: of the follower at 100", line)
		}
	})
	t.Run("wait for a holder that is slow but alive", func(t *testing.T) {
		store := miniredis.RunT(t) // in which no time passes, so that a busy machine cannot lose the lease
		a, b := replica(t, store.Addr(), short), replica(t, store.Addr(), short)
		answers, _ := hold(t, a, q)
		got := follow(t, b, q)
		const lease = "tipcache:1:{story-1:k}:l"
		store.SetTTL(lease, time.Millisecond)
		expect.Eventually(t, "the lease is renewed", func() bool { return store.TTL(lease) == short.Lease })
		answers <- nil
		if line := tell(<-got, nil); line != "hit shared: of the holder at 100" {
			t.Errorf("follower got %s, want hit shared: of the holder at 100", line)
		}
	})
	t.Run("go on when the holder dies", func(t *testing.T) {
		s := startRedis(t)
		way := startProxy(t, s.addr)
		a, b := replica(t, way.addr, short), replica(t, s.addr, short)
		hold(t, a, q)
		got := follow(t, b, q)
		way.cut() // the holder is not heard of again
		if line := tell(<-got, nil); line != "miss uri-miss: of the follower at 100" {
			t.Errorf("follower got %s, want miss uri-miss: of the follower at 100", line)
		}
	})
	for name, expiry := range map[string]time.Duration{
		"are not held up by a lease that never ends":             0,
		"believe a lease that ends in thirty years for one only": 30 * 365 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			s := startRedis(t)
			b := replica(t, s.addr, short)
			expect.NoError(t, client(t, s.addr).Set(t.Context(), "tipcache:1:{story-1:k}:l", "somebody", expiry).Err())
			if line := tell(mustGet(t, b, q, answer(100, []byte("b"))), nil); line != "miss uri-miss: b at 100" {
				t.Errorf("got %s, want miss uri-miss: b at 100", line)
			}
		})
	}
}

func TestExpiredAnswerReplacesNothingButReleasesLease(t *testing.T) {
	rdb := client(t, startRedis(t).addr)
	c := replicaOf(t, rdb, redis.Options{Lease: time.Hour})
	c.Save(t.Context(), map[string]*cache.Entry{"k": entry(100, "old")}, time.Hour)
	mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 150}, func(context.Context, *cache.Entry) (*cache.Entry, error) {
		e := entry(150, "x")
		e.Expires = time.Now()
		return e, nil
	})
	idle(t, c)
	i := c.Inspect(t.Context(), cache.Query{Key: "k", Policy: live, Tip: 150})
	if i.Lease != 0 || i.Shared.Entry == nil || string(i.Shared.Body) != "old" {
		t.Errorf("lease %v, entry %+v; want 0, old", i.Lease, i.Shared.Entry)
	}
}

func TestReplicaWithoutMemoryServesStaleEntryFromSharedStoreDuringOutage(t *testing.T) {
	addr := startRedis(t).addr
	a, b := replica(t, addr, redis.Options{}), replica(t, addr, redis.Options{})
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	q.Policy.StalePastExpires = true
	mustGet(t, a, q, func(context.Context, *cache.Entry) (*cache.Entry, error) {
		no := cache.NewContent(404, "text/plain", "", []byte("not found"), 1)
		return &cache.Entry{Content: no, Height: 100, ReadAt: time.Now(), Expires: time.Now()}, nil
	})
	idle(t, a)
	res, err := b.Get(t.Context(), q, down)
	if got := tell(res, err); got != "stale memory stale: not found at 100" {
		t.Errorf("got %s, want stale memory stale: not found at 100", got)
	}
}
