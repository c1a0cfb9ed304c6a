package cache_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

// byTheBlock is a policy by which each block makes an entry stale.
var byTheBlock = cache.Policy{StaleBlocks: 5, ErrorBlocks: 100, StaleIfError: time.Hour, Keep: time.Hour}

// A follower requests a key of a cache in each block, and lets the cache read ahead.
type follower struct {
	*cache.Cache
	tip    int64
	q      cache.Query
	budget time.Duration
	queue  queue
	room   func() bool
	reads  []string                                               // reads of the origin: the block, and "ahead" if it was read ahead
	before func(ctx context.Context, purpose cache.Purpose) error // runs in each read; its error fails the read
}

func newFollower(t *testing.T, c *cache.Cache) *follower {
	t.Helper()
	f := &follower{
		Cache: c, tip: 99, q: cache.Query{Key: "k", Policy: byTheBlock, Ahead: true},
		budget: 100 * time.Millisecond, room: func() bool { return true }, before: func(context.Context, cache.Purpose) error { return nil },
	}
	f.nextBlock(t)
	return f
}

// nextBlock raises the tip and reads ahead.
func (f *follower) nextBlock(t *testing.T) {
	t.Helper()
	f.tip++
	f.q.Tip = f.tip
	f.readAhead(t.Context())
}

func (f *follower) readAhead(ctx context.Context) {
	f.ReadAhead(ctx, ahead.Block{Height: f.tip, Time: f.budget, Room: f.room})
}

// from returns the origin of the key.
func (f *follower) from() cache.Loader { return loader{f.load, f.queue} }

func (f *follower) load(ctx context.Context, how cache.How) (*cache.Entry, error) {
	read := fmt.Sprint(f.tip)
	if how.For == cache.ForAhead {
		read += " ahead"
	}
	f.reads = append(f.reads, read)
	if err := f.before(ctx, how.For); err != nil {
		return nil, err
	}
	return entry(f.tip, "content"), nil
}

// request requests the key a number of times. All but the first request try Fresh before Get, like the fast lane.
func (f *follower) request(t *testing.T, times int) {
	t.Helper()
	for i := range times {
		if _, ok := f.Fresh(f.q, time.Now(), nil); i > 0 && ok {
			continue
		}
		if res := mustLoad(t, f.Cache, f.q, f.from()); res.Entry.Height != f.tip {
			t.Errorf("height = %d, want %d", res.Entry.Height, f.tip)
		}
	}
}

// makeHot requests the key in several blocks, so that the next block reads it ahead.
func (f *follower) makeHot(t *testing.T) {
	t.Helper()
	for range 3 {
		f.request(t, 2)
		f.nextBlock(t)
	}
	f.request(t, 2)
}

func TestKeysRequestedInEveryBlockAreReadAhead(t *testing.T) {
	for name, tt := range map[string]struct {
		requests []int // by block
		prepare  func(*follower)
		reads    []string
		unused   int
	}{
		"requested in each block":          {[]int{2, 2, 2, 5, 0}, nil, []string{"100", "101", "102 ahead", "103 ahead", "104 ahead"}, 1},
		"requested once in each block":     {[]int{1, 1, 1, 1}, nil, []string{"100", "101", "102", "103"}, 0},
		"requested in some blocks":         {[]int{2, 0, 2, 1, 0, 2, 2}, nil, []string{"100", "102", "103", "105", "106"}, 0},
		"after an unused read":             {[]int{2, 2, 0, 2, 2, 2, 0}, nil, []string{"100", "101", "102 ahead", "103", "104", "105"}, 1},
		"a query that is never read ahead": {[]int{2, 2, 2, 2}, func(f *follower) { f.q.Ahead = false }, []string{"100", "101", "102", "103"}, 0},
		"an origin without capacity":       {[]int{2, 2, 2, 2}, func(f *follower) { f.room = func() bool { return false } }, []string{"100", "101", "102", "103"}, 0},
		"reads that take longer than the round": {
			[]int{2, 2, 2, 2}, func(f *follower) { f.budget, f.queue = 10*time.Millisecond, queue{20 * time.Millisecond} }, []string{"100", "101", "102", "103"}, 0,
		},
		"fresh for several blocks": {
			[]int{2, 2, 2, 2, 2, 2, 2}, func(f *follower) { f.q.Policy.FreshBlocks = 2 }, []string{"100", "103", "106 ahead"}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFollower(t, newCache(t, cache.Options{}))
				if tt.prepare != nil {
					tt.prepare(f)
				}
				for _, n := range tt.requests {
					if f.q.Policy.FreshBlocks > 0 {
						for range n {
							mustLoad(t, f.Cache, f.q, f.from())
						}
					} else {
						f.request(t, n)
					}
					f.nextBlock(t)
				}
				f.reads = f.reads[:min(len(f.reads), len(tt.reads))] // without the read for the block after the last
				expect.NoDiff(t, f.reads, tt.reads, "reads")
				expect.Equal(t, metric(t, f.Cache, "read_ahead_total", "unused"), tt.unused, "unused reads")
			})
		})
	}
}

func sleepFor(d time.Duration) func(context.Context, cache.Purpose) error {
	return func(context.Context, cache.Purpose) error {
		time.Sleep(d)
		return nil
	}
}

// newHotFollower returns a follower whose key is read ahead at the next block, 104.
func newHotFollower(t *testing.T) *follower {
	t.Helper()
	f := newFollower(t, newCache(t, cache.Options{}))
	f.before = sleepFor(20 * time.Millisecond)
	f.makeHot(t)
	f.reads = nil
	if !f.Inspect(t.Context(), f.q, nil).Ahead {
		t.Fatal("key was not read ahead")
	}
	return f
}

func TestFailingOriginIsNotReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newHotFollower(t)
		f.before = func(context.Context, cache.Purpose) error { return errDown }
		for range 5 {
			f.nextBlock(t)
			mustLoad(t, f.Cache, f.q, f.from())
			mustLoad(t, f.Cache, f.q, f.from())
		}
		if f.reads[0] != "104 ahead" || metric(t, f.Cache, "read_ahead_total", "failed") != 1 || f.Inspect(t.Context(), f.q, nil).Ahead {
			t.Errorf("reads = %q, want first 104 ahead, counted as failed, and the key not selected", f.reads)
		}
	})
}

func TestStalledReadAheadDoesNotDelayCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newHotFollower(t)
		other := cache.Query{Key: "other", Policy: byTheBlock}
		stall := make(chan struct{})
		f.before = func(ctx context.Context, purpose cache.Purpose) error {
			if purpose == cache.ForAhead {
				<-stall
			}
			return nil
		}
		go f.nextBlock(t)
		synctest.Wait()
		checkLoad(t, f.Cache, f.q, f.from(), cache.StaleHit, 103, 100*time.Millisecond)
		checkLoad(t, f.Cache, f.q, f.from(), cache.StaleHit, 103, 0)
		other.Tip = f.tip
		checkLoad(t, f.Cache, other, f.from(), cache.Miss, 104, 0)
		close(stall)
		synctest.Wait()
		checkGet(t, f.Cache, f.q, nil, cache.Hit, 104, 0)
	})
}

func TestCallerReadsAfterReadAheadYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newHotFollower(t)
		f.before = func(ctx context.Context, purpose cache.Purpose) error {
			if purpose == cache.ForAhead {
				time.Sleep(10 * time.Millisecond)
				return fmt.Errorf("busy: %w", upstream.ErrYielded)
			}
			return nil
		}
		before := metric(t, f.Cache, "origin_calls_total")
		go f.nextBlock(t)
		synctest.Wait()
		checkLoad(t, f.Cache, f.q, f.from(), cache.Miss, 104, 10*time.Millisecond)
		checkGet(t, f.Cache, f.q, nil, cache.Hit, 104, 0)
		time.Sleep(f.budget) // the round tries again
		synctest.Wait()
		expect.Equal(t, metric(t, f.Cache, "read_ahead_total", "needless"), 1, "needless reads")
		expect.Equal(t, metric(t, f.Cache, "origin_errors_total"), 0, "errors of the origin")
		expect.Equal(t, metric(t, f.Cache, "origin_calls_total")-before, 1, "calls of the origin, without the read that yielded")
	})
}

func TestCallersReadReplacesReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newHotFollower(t)
		f.tip++
		f.q.Tip = f.tip
		go mustLoad(t, f.Cache, f.q, f.from())
		synctest.Wait()
		f.readAhead(t.Context())
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		f.request(t, 1)
		f.nextBlock(t) // the key is still selected
		expect.NoDiff(t, f.reads, []string{"104", "105 ahead"}, "reads")
	})
}

func TestReadAheadRestartsAfterPoliciesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newHotFollower(t)
		f.ForgetAhead()
		f.nextBlock(t)
		if len(f.reads) != 0 {
			t.Errorf("reads = %q, want none", f.reads)
		}
	})
}

// longLease is a lease that a busy machine does not lose.
var longLease = redis.Options{Lease: time.Minute}

// Replicas whose clients request the same keys read each key once per block, whichever replica reads it.
func TestReplicasShareReadsAhead(t *testing.T) {
	const keys, blocks = 5, 6
	addr := startRedis(t).addr
	replicas := []*cache.Cache{startReplica(t, addr, longLease), startReplica(t, addr, longLease)}
	var tip, reads atomic.Int64
	origin := func(context.Context, *cache.Entry) (*cache.Entry, error) {
		reads.Add(1)
		return entry(tip.Load(), "content"), nil
	}
	for height := int64(100); height < 100+blocks; height++ {
		tip.Store(height)
		var all sync.WaitGroup
		for _, c := range replicas {
			all.Go(func() {
				c.ReadAhead(t.Context(), ahead.Block{Height: height, Time: 5 * time.Minute, Room: func() bool { return true }})
			})
		}
		all.Wait()
		for i := range 2 * keys {
			for _, c := range replicas {
				mustGet(t, c, cache.Query{Key: fmt.Sprint("k", i%keys), Policy: byTheBlock, Tip: height, MinHeight: height, Ahead: true}, origin)
			}
		}
	}
	expect.Equal(t, reads.Load(), keys*blocks, "reads of the origin")
	if metric(t, replicas[0], "read_ahead_total", "origin")+metric(t, replicas[1], "read_ahead_total", "origin") == 0 {
		t.Error("read_ahead_total of the origin = 0, want more")
	}
}

// One of the replicas that wait for a read ahead reads the origin after it yields, and the others wait for that read.
func TestOneReplicaReadsAfterReadAheadYields(t *testing.T) {
	t.Parallel()
	addr := startRedis(t).addr
	f, others := newFollower(t, startReplica(t, addr, longLease)), []*cache.Cache{startReplica(t, addr, longLease), startReplica(t, addr, longLease)}
	f.budget = 5 * time.Minute
	f.makeHot(t)
	waitForIdle(t, f.Cache)
	f.before = func(context.Context, cache.Purpose) error {
		expect.EventuallyEqual(t, "the other replicas wait", func() int { return metric(t, others[0], "lease_waiting") + metric(t, others[1], "lease_waiting") }, 2)
		return upstream.ErrYielded
	}
	f.tip++
	round, endRound := context.WithCancel(t.Context())
	var rounds, callers sync.WaitGroup
	rounds.Go(func() { f.readAhead(round) })
	expect.EventuallyAtLeast(t, "the first replica has the lease", func() time.Duration { return f.Inspect(t.Context(), f.q, nil).Lease }, 1)
	var reads atomic.Int64
	for _, c := range others {
		callers.Go(func() {
			q := cache.Query{Key: "k", Policy: byTheBlock, Tip: f.tip, MinHeight: f.tip}
			mustGet(t, c, q, slowOrigin(&reads, 50*time.Millisecond, answer(f.tip, page)))
		})
	}
	callers.Wait()
	endRound() // it would read again only after a part of the budget
	rounds.Wait()
	expect.Equal(t, reads.Load(), 1, "reads of the other replicas")
}

// The other replica notifies this one when its read ends.
func TestReadAheadDoesNotWaitForAnotherReplica(t *testing.T) {
	addr := startRedis(t).addr
	holder, f := startReplica(t, addr, redis.Options{Lease: time.Hour}), newFollower(t, startReplica(t, addr, longLease))
	f.makeHot(t)
	waitForIdle(t, f.Cache)
	q := f.q
	q.Tip = f.tip + 1
	answers, done := holdLease(t, holder, q)
	needless := metric(t, f.Cache, "read_ahead_total", "needless")
	f.nextBlock(t)
	expect.Equal(t, metric(t, f.Cache, "read_ahead_total", "needless"), needless+1, "needless reads ahead")
	answers <- nil
	expect.NoError(t, <-done)
}

// The parts of a batch are shared with other replicas, the batch is not.
func TestBatchReadAheadRequestsLeaseOfPartOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := busyStore()
		var requested, reads int
		busy := s.acquire
		s.acquire = func(to cache.Subscriber) (cache.LeaseReply, error) {
			requested++
			return busy(to)
		}
		f := newFollower(t, newCacheWith(t, s, cache.Options{}))
		f.q.Policy.Keep = 0
		f.makeHot(t)
		f.before = func(ctx context.Context, purpose cache.Purpose) error {
			reads++
			_, err := f.Get(ctx, cache.Query{Key: "part", Policy: byTheBlock, Tip: f.tip, For: purpose}, answer(f.tip, page))
			return err
		}
		if f.nextBlock(t); reads == 0 || requested != reads {
			t.Errorf("leases requested in %d reads ahead = %d, want one in each", reads, requested)
		}
	})
}

// Requests count for a key whose entry was renewed by another replica's read.
func TestKeyReadByAnotherReplicaIsReadAhead(t *testing.T) {
	t.Parallel()
	addr := startRedis(t).addr
	other, f := startReplica(t, addr, longLease), newFollower(t, startReplica(t, addr, longLease))
	f.request(t, 2)
	waitForIdle(t, f.Cache)
	f.nextBlock(t)
	mustGet(t, other, cache.Query{Key: "k", Policy: byTheBlock, Tip: f.tip}, answer(f.tip, page))
	waitForIdle(t, other)
	waitForMessages(t, f.Cache, other)
	f.request(t, 2)
	if f.nextBlock(t); len(f.reads) != 2 || f.reads[1] != "102 ahead" {
		t.Errorf("reads = %q, want two, the second 102 ahead", f.reads)
	}
}

// A part of a batch that is read ahead must not burden the origin more than the batch.
func TestRefreshDuringAReadAheadIsAheadToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCacheWithEntry(t, cache.Options{})
		var purposes []cache.Purpose
		q := at105
		q.For = cache.ForAhead
		mustLoad(t, c, q, loader{func(_ context.Context, how cache.How) (*cache.Entry, error) {
			purposes = append(purposes, how.For)
			return entry(105, "content"), nil
		}, longQueue})
		synctest.Wait()
		if len(purposes) != 1 || purposes[0] != cache.ForAhead {
			t.Errorf("purposes = %v, want one read ahead", purposes)
		}
	})
}
