package cache_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestKeyIsReadOncePerBlock(t *testing.T) {
	t.Parallel()
	const keys, callers, blocks = 8, 10, 6
	for _, stale := range []int64{0, 5} {
		t.Run(fmt.Sprintf("stale for %d blocks", stale), func(t *testing.T) {
			addr := startRedis(t).addr
			o := redis.Options{Lease: time.Minute} // a busy machine must not lose it
			replicas := []*cache.Cache{startReplica(t, addr, o), startReplica(t, addr, o)}
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
					waitForIdle(t, c)
				}
			}
			expect.Equal(t, len(calls), keys*blocks, "keys and blocks that the origin was read for")
			for read, n := range calls {
				expect.Equal(t, n, 1, "reads of %s", read)
			}
		})
	}
}

// holdLease begins a read of the origin by a replica, which thus holds the lease of q.Key. The read ends with the error
// sent on answers; nil means an entry at q.Tip. done receives the error of Get.
func holdLease(t *testing.T, c *cache.Cache, q cache.Query) (answers chan<- error, done <-chan error) {
	t.Helper()
	reading, answer, end := make(chan bool), make(chan error), make(chan error, 1)
	go func() {
		_, err := c.Get(context.Background(), q, originFunc(func(ctx context.Context, _ *cache.Entry) (*cache.Entry, error) {
			close(reading)
			select {
			case err := <-answer:
				return entry(q.Tip, "of the holder"), err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}))
		end <- err
	}()
	<-reading
	return answer, end
}

// startFollower lets a replica request a key whose lease another one holds. It returns when the replica waits for the
// lease or has its result.
func startFollower(t *testing.T, c *cache.Cache, q cache.Query) <-chan cache.Result {
	t.Helper()
	got := make(chan cache.Result, 1)
	go func() { got <- mustGet(t, c, q, answer(q.Tip, []byte("of the follower"))) }()
	expect.Eventually(t, "the follower waits for the lease", func() bool { return metric(t, c, "lease_waiting") > 0 || len(got) > 0 })
	return got
}

func TestFollowerOfLease(t *testing.T) {
	t.Parallel()
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	short := redis.Options{Lease: 300 * time.Millisecond}
	long := redis.Options{Lease: time.Hour}

	const ownRead = "miss uri-miss: of the follower at 100"

	for name, key := range map[string]string{"without a seal key": "", "with a seal key": "a key of replicas"} {
		t.Run("is woken by the holder's entry before the lease ends, "+name, func(t *testing.T) {
			addr, o := startRedis(t).addr, redis.Options{Settings: redis.Settings{SealKey: key}, Lease: time.Hour}
			a, b := startReplica(t, addr, o), startReplica(t, addr, o)
			answers, _ := holdLease(t, a, q)
			got := startFollower(t, b, q)
			answers <- nil
			expect.Equal(t, describe(<-got, nil), "hit shared: of the holder at 100", "result of the follower")
		})
	}
	t.Run("reads the origin after the holder's origin fails", func(t *testing.T) {
		addr := startRedis(t).addr
		a, b := startReplica(t, addr, long), startReplica(t, addr, long)
		answers, done := holdLease(t, a, q)
		got := startFollower(t, b, q)
		answers <- errDown
		expect.Equal(t, describe(<-got, nil), ownRead, "result of the follower")
		expect.ErrorIs(t, <-done, errDown, "Get of the holder")
	})
	t.Run("reads the origin after the holder shuts down", func(t *testing.T) {
		addr := startRedis(t).addr
		a, b := startReplica(t, addr, long), startReplica(t, addr, long)
		holdLease(t, a, q)
		got := startFollower(t, b, q)
		_ = a.Close()
		expect.Equal(t, describe(<-got, nil), ownRead, "result of the follower")
	})
	t.Run("waits for a holder that is slow", func(t *testing.T) {
		store := miniredis.RunT(t) // its clock stands still, so a busy machine cannot lose the lease
		a, b := startReplica(t, store.Addr(), short), startReplica(t, store.Addr(), short)
		answers, _ := holdLease(t, a, q)
		got := startFollower(t, b, q)
		const lease = "tipcache:2:{story-1:k}:l"
		store.SetTTL(lease, time.Millisecond)
		expect.EventuallyEqual(t, "the lease is renewed", func() time.Duration { return store.TTL(lease) }, short.Lease)
		answers <- nil
		expect.Equal(t, describe(<-got, nil), "hit shared: of the holder at 100", "result of the follower")
	})
	t.Run("reads the origin after the holder loses its connection", func(t *testing.T) {
		s := startRedis(t)
		link := startProxy(t, s.addr)
		a, b := startReplica(t, link.addr, short), startReplica(t, s.addr, short)
		holdLease(t, a, q)
		got := startFollower(t, b, q)
		link.cut()
		expect.Equal(t, describe(<-got, nil), ownRead, "result of the follower")
	})
}

func TestExpiredEntryReplacesNothingButReleasesLease(t *testing.T) {
	rdb := redistest.Client(t, startRedis(t).addr)
	c := startReplicaOf(t, rdb, "story-1", redis.Options{Lease: time.Hour})
	other := startReplicaOf(t, rdb, "story-1", redis.Options{})
	mustGet(t, other, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, []byte("old")))
	waitForIdle(t, other)
	mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 150}, func(context.Context, *cache.Entry) (*cache.Entry, error) {
		e := entry(150, "x")
		e.Expires = time.Now()
		return e, nil
	})
	waitForIdle(t, c)
	i := c.Inspect(t.Context(), cache.Query{Key: "k", Policy: live, Tip: 150}, nil)
	if i.Lease != 0 || i.Shared.Entry == nil || string(i.Shared.Entry.Body) != "old" {
		t.Errorf("lease = %v, entry in Redis = %+v; want 0, old", i.Lease, i.Shared.Entry)
	}
}

func TestReplicaWithoutMemoryServesStaleEntryFromSharedStoreDuringOutage(t *testing.T) {
	addr := startRedis(t).addr
	a, b := startReplica(t, addr, redis.Options{}), startReplica(t, addr, redis.Options{})
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	q.Policy.StalePastExpires = true
	mustGet(t, a, q, func(context.Context, *cache.Entry) (*cache.Entry, error) {
		no := cache.NewContent(404, "text/plain", "", []byte("not found"), 1)
		return &cache.Entry{Content: no, Height: 100, ReadAt: time.Now(), Expires: time.Now()}, nil
	})
	waitForIdle(t, a)
	expect.Equal(t, describe(b.Get(t.Context(), q, originFunc(down))), "stale memory stale: not found at 100", "result")
}
