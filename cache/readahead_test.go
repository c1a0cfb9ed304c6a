package cache_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

// byTheBlock is a policy by which every block makes an answer stale.
var byTheBlock = cache.Policy{StaleBlocks: 5, ErrorBlocks: 100, StaleIfError: time.Hour, Keep: time.Hour}

// A follower asks a cache block by block, and has it read ahead.
type follower struct {
	*cache.Cache
	tip    int64
	q      cache.Query
	budget time.Duration
	room   func() bool
	reads  []string // of the origin: the block, and whether it was read ahead
	does   func(ctx context.Context) error
}

func newFollower(t *testing.T, c *cache.Cache) *follower {
	t.Helper()
	f := &follower{
		Cache: c, tip: 99, q: cache.Query{Key: "k", Policy: byTheBlock, Ahead: true},
		budget: 100 * time.Millisecond, room: func() bool { return true }, does: func(context.Context) error { return nil },
	}
	f.block(t)
	return f
}

// block has the next block come.
func (f *follower) block(t *testing.T) {
	t.Helper()
	f.tip++
	f.q.Tip = f.tip
	f.ReadAhead(t.Context(), ahead.Block{Height: f.tip, Time: f.budget, Room: f.room})
}

func (f *follower) origin(ctx context.Context, _ *cache.Entry) (*cache.Entry, error) {
	what := fmt.Sprint(f.tip)
	if cache.Ahead(ctx) {
		what += " ahead"
	}
	f.reads = append(f.reads, what)
	if err := f.does(ctx); err != nil {
		return nil, err
	}
	return entry(f.tip, "content"), nil
}

// ask asks so many times, of which one may be through what the fast lane uses.
func (f *follower) ask(t *testing.T, times int) {
	t.Helper()
	for i := range times {
		if _, ok := f.Fresh(f.q, time.Now(), nil); i > 0 && ok {
			continue
		}
		if res := mustGet(t, f.Cache, f.q, f.origin); res.Entry.Height != f.tip {
			t.Errorf("answered at block %d, want %d", res.Entry.Height, f.tip)
		}
	}
}

func TestKeysRequestedInEveryBlockAreReadAhead(t *testing.T) {
	for name, tt := range map[string]struct {
		asks   []int // by block
		with   func(*follower)
		reads  []string
		unused int
	}{
		"from the third block on":           {[]int{2, 2, 2, 5, 0}, nil, []string{"100", "101", "102 ahead", "103 ahead", "104 ahead"}, 1},
		"not when asked for once in each":   {[]int{1, 1, 1, 1}, nil, []string{"100", "101", "102", "103"}, 0},
		"not when asked for now and then":   {[]int{2, 0, 2, 1, 0, 2, 2}, nil, []string{"100", "102", "103", "105", "106"}, 0},
		"not after a read that went unused": {[]int{2, 2, 0, 2, 2, 2, 0}, nil, []string{"100", "101", "102 ahead", "103", "104", "105"}, 1},
		"not where nothing can be ahead":    {[]int{2, 2, 2, 2}, func(f *follower) { f.q.Ahead = false }, []string{"100", "101", "102", "103"}, 0},
		"not where the origin has no room":  {[]int{2, 2, 2, 2}, func(f *follower) { f.room = func() bool { return false } }, []string{"100", "101", "102", "103"}, 0},
		"not where reads take longer than the time": {
			[]int{2, 2, 2, 2}, func(f *follower) { f.budget, f.does = 10*time.Millisecond, takes(20*time.Millisecond) }, []string{"100", "101", "102", "103"}, 0,
		},
		"not before they are stale": {
			[]int{2, 2, 2, 2, 2, 2, 2}, func(f *follower) { f.q.Policy.FreshBlocks = 2 }, []string{"100", "103", "106 ahead"}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFollower(t, newCache(t, cache.Options{}))
				if tt.with != nil {
					tt.with(f)
				}
				for _, n := range tt.asks {
					if f.q.Policy.FreshBlocks > 0 {
						for range n {
							mustGet(t, f.Cache, f.q, f.origin)
						}
					} else {
						f.ask(t, n)
					}
					f.block(t)
				}
				f.reads = f.reads[:min(len(f.reads), len(tt.reads))] // without that of the block after the last
				if diff := cmp.Diff(tt.reads, f.reads); diff != "" {
					t.Errorf("reads (-want +got)\n%s", diff)
				}
				if got := metric(t, f.Cache, "read_ahead_total", "unused"); got != tt.unused {
					t.Errorf("%d unused, want %d", got, tt.unused)
				}
			})
		})
	}
}

func takes(d time.Duration) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(d)
		return nil
	}
}

// hotKey is a follower whose key is read ahead when the next block comes.
func hotKey(t *testing.T) *follower {
	t.Helper()
	f := newFollower(t, newCache(t, cache.Options{}))
	f.does = takes(20 * time.Millisecond)
	for range 3 {
		f.ask(t, 2)
		f.block(t)
	}
	f.ask(t, 2)
	f.reads = nil
	if !f.Inspect(t.Context(), f.q).Ahead {
		t.Fatal("key was not read ahead")
	}
	return f
}

func TestFailingOriginIsNotReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := hotKey(t)
		f.does = func(context.Context) error { return errDown }
		for range 5 {
			f.block(t)
			mustGet(t, f.Cache, f.q, f.origin)
			mustGet(t, f.Cache, f.q, f.origin)
		}
		if f.reads[0] != "104 ahead" || metric(t, f.Cache, "read_ahead_total", "failed") != 1 || f.Inspect(t.Context(), f.q).Ahead {
			t.Errorf("reads: %q, want first 104 ahead, counted as failed, and the key not selected", f.reads)
		}
	})
}

func TestStalledReadAheadDoesNotDelayCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := hotKey(t)
		other := cache.Query{Key: "other", Policy: byTheBlock}
		stall := make(chan struct{})
		f.does = func(ctx context.Context) error {
			if cache.Ahead(ctx) {
				<-stall
			}
			return nil
		}
		go f.block(t)
		synctest.Wait()
		timed(t, f.Cache, f.q, f.origin, cache.StaleHit, 103, 100*time.Millisecond)
		timed(t, f.Cache, f.q, f.origin, cache.StaleHit, 103, 0)
		other.Tip = f.tip
		timed(t, f.Cache, other, f.origin, cache.Miss, 104, 0)
		close(stall)
		synctest.Wait()
		timed(t, f.Cache, f.q, nil, cache.Hit, 104, 0)
	})
}

func TestCallerReadsAfterReadAheadYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := hotKey(t)
		f.does = func(ctx context.Context) error {
			if cache.Ahead(ctx) {
				time.Sleep(10 * time.Millisecond)
				return fmt.Errorf("busy: %w", cache.ErrYielded)
			}
			return nil
		}
		before := metric(t, f.Cache, "origin_calls_total")
		go f.block(t)
		synctest.Wait()
		timed(t, f.Cache, f.q, f.origin, cache.Miss, 104, 10*time.Millisecond)
		timed(t, f.Cache, f.q, nil, cache.Hit, 104, 0)
		time.Sleep(f.budget) // the round tries again
		synctest.Wait()
		if got := metric(t, f.Cache, "read_ahead_total", "needless"); got != 1 || metric(t, f.Cache, "origin_errors_total") != 0 {
			t.Errorf("%d needless, want 1, and no error of the origin", got)
		}
		expect.Equal(t, metric(t, f.Cache, "origin_calls_total")-before, 1, "calls of the origin, without the read that yielded")
	})
}

func TestFirstCallerReadsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := hotKey(t)
		f.tip++
		f.q.Tip = f.tip
		go mustGet(t, f.Cache, f.q, f.origin)
		synctest.Wait()
		f.ReadAhead(t.Context(), ahead.Block{Height: f.tip, Time: f.budget, Room: f.room})
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		f.ask(t, 1)
		f.block(t) // the caller's read has not cost the key its place
		if diff := cmp.Diff([]string{"104", "105 ahead"}, f.reads); diff != "" {
			t.Errorf("reads (-want +got)\n%s", diff)
		}
	})
}

func TestReadAheadRestartsAfterPoliciesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := hotKey(t)
		f.ForgetAhead()
		f.block(t)
		if len(f.reads) != 0 {
			t.Errorf("reads: %q, want none", f.reads)
		}
	})
}

// patient is a replica that keeps its leases, however busy the machine is.
func patient(t *testing.T, addr string) *cache.Cache {
	t.Helper()
	rdb := client(t, addr)
	c := sharing(t, rdb, cache.Options{}, redis.Options{Lease: time.Minute})
	c.SetNamespace("story-1")
	listening(t, rdb)
	return c
}

// Replicas whose clients ask for the same keys read each of them once for a block,
// whoever is ahead.
func TestReplicasShareReadsAhead(t *testing.T) {
	const keys, blocks = 5, 6
	addr := startRedis(t).addr
	replicas := []*cache.Cache{patient(t, addr), patient(t, addr)}
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
	if reads.Load() != keys*blocks {
		t.Errorf("%d reads of the origin, want %d", reads.Load(), keys*blocks)
	}
	if metric(t, replicas[0], "read_ahead_total", "origin")+metric(t, replicas[1], "read_ahead_total", "origin") == 0 {
		t.Error("no key was read ahead")
	}
}

// The replicas that have waited for a read ahead which yielded do not all ask the
// origin.
func TestReplicasReadAfterReadAheadYields(t *testing.T) {
	t.Parallel()
	addr := startRedis(t).addr
	first, others := patient(t, addr), []*cache.Cache{patient(t, addr), patient(t, addr)}
	rdb := client(t, addr)
	expect.Eventually(t, "all listen", func() bool { return listeners(t, rdb) == 3 })
	f := newFollower(t, first)
	f.budget = 5 * time.Minute
	for range 3 {
		f.ask(t, 2)
		f.block(t)
	}
	f.ask(t, 2)
	idle(t, first)
	f.does = func(ctx context.Context) error {
		expect.Eventually(t, "the others wait", func() bool { return metric(t, others[0], "lease_waiting")+metric(t, others[1], "lease_waiting") == 2 })
		return cache.ErrYielded
	}
	var reads atomic.Int64
	height, q := f.tip+1, f.q
	var all sync.WaitGroup
	all.Go(func() { f.block(t) })
	expect.Eventually(t, "the first has the lease", func() bool { return first.Inspect(t.Context(), q).Lease > 0 })
	for _, c := range others {
		all.Go(func() {
			q := cache.Query{Key: "k", Policy: byTheBlock, Tip: height, MinHeight: height}
			mustGet(t, c, q, slow(&reads, 50*time.Millisecond, answer(height, page)))
		})
	}
	all.Wait()
	if reads.Load() != 1 {
		t.Errorf("%d replicas asked the origin, want one", reads.Load())
	}
}

// Another replica tells of what it reads.
func TestReadAheadDoesNotWaitForAnotherReplica(t *testing.T) {
	addr := startRedis(t).addr
	holder, f := replica(t, addr, redis.Options{Lease: time.Hour}), newFollower(t, patient(t, addr))
	for range 3 {
		f.ask(t, 2)
		f.block(t)
	}
	f.ask(t, 2)
	idle(t, f.Cache)
	q := f.q
	q.Tip = f.tip + 1
	answers, done := hold(t, holder, q)
	needless := metric(t, f.Cache, "read_ahead_total", "needless")
	f.block(t)
	if got := metric(t, f.Cache, "read_ahead_total", "needless"); got != needless+1 {
		t.Errorf("%d reads ahead were needless, want %d", got, needless+1)
	}
	answers <- nil
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What another replica tells of is asked for here all the same.
func TestKeyReadByAnotherReplicaIsReadAhead(t *testing.T) {
	t.Parallel()
	addr := startRedis(t).addr
	other, f := patient(t, addr), newFollower(t, patient(t, addr))
	f.ask(t, 2)
	idle(t, f.Cache)
	f.block(t)
	mustGet(t, other, cache.Query{Key: "k", Policy: byTheBlock, Tip: f.tip}, answer(f.tip, page))
	idle(t, other)
	heard(t, f.Cache, other)
	f.ask(t, 2)
	if f.block(t); len(f.reads) != 2 || f.reads[1] != "102 ahead" {
		t.Errorf("reads: %q, want two, the second 102 ahead", f.reads)
	}
}

// listeners is how many replicas are subscribed.
func listeners(t *testing.T, rdb *goredis.Client) (sum int64) {
	t.Helper()
	channels, err := rdb.PubSubChannels(t.Context(), "tipcache:*").Result()
	if err != nil || len(channels) == 0 {
		return 0
	}
	subscribed, err := rdb.PubSubNumSub(t.Context(), channels...).Result()
	if err != nil {
		t.Error(err)
	}
	for _, n := range subscribed {
		sum += n
	}
	return sum
}
