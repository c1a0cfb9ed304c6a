package cache_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A commandLog is a hook that records the commands which read or write entries and leases.
type commandLog struct {
	goredis.Hook
	mu       sync.Mutex
	commands []string
}

func (l *commandLog) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (l *commandLog) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		for _, cmd := range cmds {
			l.record(cmd)
		}
		return next(ctx, cmds)
	}
}

func (l *commandLog) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		l.record(cmd)
		return next(ctx, cmd)
	}
}

func (l *commandLog) record(cmd goredis.Cmder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if name := cmd.Name(); slices.Contains([]string{"hmget", "hget", "set", "evalsha", "eval"}, name) {
		l.commands = append(l.commands, name)
	}
}

// drain returns the commands recorded since the last call.
func (l *commandLog) drain() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.commands = nil }()
	return strings.Join(l.commands, " ")
}

// A replicaSet is a reader that receives the messages of a writer. The other replica only announces purges.
type replicaSet struct {
	reader, writer, other *cache.Cache
	commands              *commandLog // of the reader
}

func startReplicaSet(t *testing.T, writerSealKey string) *replicaSet {
	t.Helper()
	addr := startRedis(t).addr
	start := func(sealKey string) (*cache.Cache, *goredis.Client) {
		rdb := redistest.Client(t, addr)
		c := newSharedCache(t, rdb, cache.Options{MemoryBytes: 1 << 20}, redis.Options{Settings: redis.Settings{SealKey: sealKey}})
		c.SetNamespace("story-1")
		return c, rdb
	}
	s := &replicaSet{commands: &commandLog{}}
	var rdb *goredis.Client
	s.writer, _ = start(writerSealKey)
	s.other, _ = start("ours")
	s.reader, rdb = start("ours")
	rdb.AddHook(s.commands)
	expect.EventuallyEqual(t, "all replicas are subscribed", func() int64 { return subscriptions(t, rdb) }, 3)
	return s
}

// write lets the writer store an entry, and waits until the reader has received its message.
func (s *replicaSet) write(t *testing.T, height int64, body []byte) {
	t.Helper()
	mustGet(t, s.writer, cache.Query{Key: "k", Policy: byTheBlock, Tip: height}, answer(height, body))
	waitForIdle(t, s.writer)
	waitForMessages(t, s.reader, s.other)
	s.commands.drain()
}

// noise returns a body that does not compress.
func noise(n int) []byte {
	b, x := make([]byte, n), uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func TestReadOfOneReplicaRenewsEntriesOfOthers(t *testing.T) {
	t.Parallel()
	short, long := []byte("short"), noise(8<<10)
	for name, tt := range map[string]struct {
		before, after     []byte
		writerSealKey     string
		height, maxHeight int64  // of the written entry, and of the reader's query
		commands          string // sent by the reader; the first ones of a miss
		want              string
	}{
		"same content":               {short, short, "ours", 101, 0, "", "hit shared"},
		"another content":            {short, []byte("changed"), "ours", 101, 0, "", "hit shared"},
		"same long content":          {long, long, "ours", 101, 0, "", "hit shared"},
		"another long content":       {long, noise(9 << 10), "ours", 101, 0, "evalsha", "hit shared"},
		"signed with another key":    {short, short, "another", 101, 0, "evalsha", "miss stale"},
		"from a block above the max": {short, short, "ours", 105, 101, "evalsha", "miss stale"},
		"from the same block":        {short, short, "ours", 100, 0, "evalsha", "miss stale"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startReplicaSet(t, tt.writerSealKey)
			q := cache.Query{Key: "k", Policy: byTheBlock, Tip: 100}
			mustGet(t, s.reader, q, answer(100, tt.before))
			waitForIdle(t, s.reader)
			s.write(t, tt.height, tt.after)
			q.Tip, q.MaxHeight = 101, tt.maxHeight
			res := mustGet(t, s.reader, q, answer(101, tt.after))
			if got := describe(res, nil); !strings.HasPrefix(got, tt.want+": "+string(tt.after)+" at 101") {
				t.Errorf("got %.60s, want %s", got, tt.want)
			}
			if commands := s.commands.drain(); commands != tt.commands && (res.Outcome != cache.Miss || !strings.HasPrefix(commands, tt.commands)) {
				t.Errorf("commands = %q, want %q", commands, tt.commands)
			}
			expect.Equal(t, metric(t, s.reader, "shared_errors_total", "corrupt"), 0, "corrupt entries")
		})
	}
}

func TestPurgeRemovesRenewals(t *testing.T) {
	t.Parallel()
	s := startReplicaSet(t, "ours")
	q := cache.Query{Key: "k", Policy: byTheBlock, Tip: 100}
	mustGet(t, s.reader, q, answer(100, page))
	waitForIdle(t, s.reader)
	s.write(t, 101, []byte("changed")) // short enough for the message to contain it
	expect.Value(s.writer.PurgeKeys(t.Context(), cache.Selection{Path: "k"}))(t)
	waitForMessages(t, s.reader, s.other)
	q.Tip = 101
	if got := mustGet(t, s.reader, q, answer(101, page)); got.Outcome != cache.Miss {
		t.Errorf("Get after the purge = %s, want a miss", describe(got, nil))
	}
}

func TestRenewalsTakeASmallPartOfMemory(t *testing.T) {
	t.Parallel()
	s := startReplicaSet(t, "ours")
	const keys = 200
	query := func(i int, tip int64) cache.Query {
		return cache.Query{Key: fmt.Sprint("k", i), Policy: byTheBlock, Tip: tip}
	}
	for i, c := range []*cache.Cache{s.reader, s.writer} {
		height := int64(100 + i)
		for i := range keys {
			mustGet(t, c, query(i, height), answer(height, page))
		}
		waitForIdle(t, c)
	}
	waitForMessages(t, s.reader, s.other)
	held := 0
	for i := range keys {
		s.commands.drain()
		res := mustGet(t, s.reader, query(i, 101), answer(101, page))
		if expect.Equal(t, res.Outcome, cache.Hit, "outcome of key %d", i); s.commands.drain() == "" {
			held++
		}
	}
	if held == 0 || held > keys/2 {
		t.Errorf("renewals held = %d of %d, want at least 1 and at most half", held, keys)
	}
}
