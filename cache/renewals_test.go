package cache_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

// asked notes the commands by which entries and leases are asked for.
type asked struct {
	goredis.Hook
	mu       sync.Mutex
	commands []string
}

func (a *asked) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (a *asked) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		for _, cmd := range cmds {
			a.note(cmd)
		}
		return next(ctx, cmds)
	}
}

func (a *asked) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		a.note(cmd)
		return next(ctx, cmd)
	}
}

func (a *asked) note(cmd goredis.Cmder) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if name := cmd.Name(); slices.Contains([]string{"hmget", "hget", "set", "evalsha", "eval"}, name) {
		a.commands = append(a.commands, name)
	}
}

// take gives what was noted since.
func (a *asked) take() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() { a.commands = nil }()
	return strings.Join(a.commands, " ")
}

// eachBlock makes an entry stale with the next block.
var eachBlock = cache.Policy{StaleBlocks: 5, ErrorBlocks: 100, StaleIfError: time.Hour, Keep: time.Hour}

// told are two replicas that share a store, and one that has nothing to say.
type told struct {
	reads, writes, other *cache.Cache
	asked                *asked // by the one that reads
}

func startTold(t *testing.T, sealOfWriter string) *told {
	t.Helper()
	addr := startRedis(t).addr
	start := func(seal string) (*cache.Cache, *goredis.Client) {
		rdb := client(t, addr)
		c := sharing(t, rdb, cache.Options{MemoryBytes: 1 << 20}, redis.Options{SealKey: []byte(seal)})
		c.SetNamespace("story-1")
		return c, rdb
	}
	w := &told{asked: &asked{}}
	var rdb *goredis.Client
	w.writes, _ = start(sealOfWriter)
	w.other, _ = start("ours")
	w.reads, rdb = start("ours")
	rdb.AddHook(w.asked)
	expect.Eventually(t, "all replicas listen", func() bool {
		counts, err := rdb.PubSubNumSub(t.Context(), "tipcache:1:story-1").Result()
		return err == nil && counts["tipcache:1:story-1"] == 3
	})
	return w
}

// write has a replica settle an entry, and returns when the one that reads has heard of it.
func (w *told) write(t *testing.T, height int64, body []byte) {
	t.Helper()
	mustGet(t, w.writes, cache.Query{Key: "k", Policy: eachBlock, Tip: height}, answer(height, body))
	idle(t, w.writes)
	heard(t, w.reads, w.other)
	w.asked.take()
}

func TestReadOfOneReplicaRenewsEntriesOfOthers(t *testing.T) {
	t.Parallel()
	short, long := []byte("short"), noise(8<<10)
	for name, tt := range map[string]struct {
		before, after []byte
		seal          string // of the replica that writes
		height, most  int64  // of what it writes; that can be
		asks          string // of Redis; of a miss, first
		want          string
	}{
		"the same content":           {short, short, "ours", 101, 0, "", "hit shared"},
		"another content":            {short, []byte("changed"), "ours", 101, 0, "", "hit shared"},
		"a long one, the same":       {long, long, "ours", 101, 0, "", "hit shared"},
		"a long one that changed":    {long, noise(9 << 10), "ours", 101, 0, "hmget", "hit shared"},
		"sealed with another key":    {short, short, "another", 101, 0, "set hget", "miss stale"},
		"of a block that cannot be":  {short, short, "ours", 105, 101, "set hget", "miss stale"},
		"of the block that there is": {short, short, "ours", 100, 0, "set hget", "miss stale"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startTold(t, tt.seal)
			q := cache.Query{Key: "k", Policy: eachBlock, Tip: 100}
			mustGet(t, w.reads, q, answer(100, tt.before))
			idle(t, w.reads)
			w.write(t, tt.height, tt.after)
			q.Tip, q.MaxHeight = 101, tt.most
			res := mustGet(t, w.reads, q, answer(101, tt.after))
			if got := tell(res, nil); !strings.HasPrefix(got, tt.want+": "+string(tt.after)+" at 101") {
				t.Errorf("got %.60s, want %s", got, tt.want)
			}
			if asks := w.asked.take(); asks != tt.asks && (res.Outcome != cache.Miss || !strings.HasPrefix(asks, tt.asks)) {
				t.Errorf("Redis was asked %q, want %q", asks, tt.asks)
			}
			if n := metric(t, w.reads, "shared_errors_total", "corrupt"); n > 0 {
				t.Errorf("%d corrupt entries are counted, want 0", n)
			}
		})
	}
}

func TestPurgeRemovesRenewals(t *testing.T) {
	t.Parallel()
	w := startTold(t, "ours")
	q := cache.Query{Key: "k", Policy: eachBlock, Tip: 100}
	mustGet(t, w.reads, q, answer(100, page))
	idle(t, w.reads)
	w.write(t, 101, []byte("changed")) // the message has all of it
	if _, err := w.writes.PurgeKeys(t.Context(), cache.Selection{Path: "k"}); err != nil {
		t.Fatal(err)
	}
	heard(t, w.reads, w.other)
	q.Tip = 101
	if got := mustGet(t, w.reads, q, answer(101, page)); got.Outcome != cache.Miss {
		t.Errorf("got %s, want a miss", tell(got, nil))
	}
}

func TestRenewalsTakeASmallPartOfMemory(t *testing.T) {
	t.Parallel()
	w := startTold(t, "ours")
	const keys = 200
	query := func(i int, tip int64) cache.Query {
		return cache.Query{Key: fmt.Sprint("k", i), Policy: eachBlock, Tip: tip}
	}
	for _, by := range []*cache.Cache{w.reads, w.writes} {
		for i := range keys {
			height := int64(100)
			if by == w.writes {
				height = 101
			}
			mustGet(t, by, query(i, height), answer(height, page))
		}
		idle(t, by)
	}
	heard(t, w.reads, w.other)
	for i, want := range map[int]bool{keys / 4: true, keys - 1: false} {
		w.asked.take()
		res := mustGet(t, w.reads, query(i, 101), answer(101, page))
		if asks := w.asked.take(); asks != "" != want || res.Outcome != cache.Hit {
			t.Errorf("renewal %d of %d: Redis was asked %q for outcome %v, want commands = %v for a hit", i, keys, asks, res.Outcome, want)
		}
	}
}
