package cache_test

import (
	"testing"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestOnlySignedEntriesAreServed(t *testing.T) {
	addr := startRedis(t).addr
	rdb := redistest.Client(t, addr)
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	for _, step := range []struct {
		name, sealKey, body, want string
		before                    func()
	}{
		{"first read", "ours", "a", "miss uri-miss: a at 100", nil},
		{"same seal key", "ours", "b", "hit shared: a at 100", nil},
		{"another seal key", "another", "c", "miss uri-miss: c at 100", nil},
		{"entry overwritten with another seal key", "ours", "d", "miss uri-miss: d at 100", nil},
		{"entry with a modified height", "ours", "e", "miss uri-miss: e at 100", func() {
			m := []byte(rdb.HGet(t.Context(), "tipcache:2:{story-1:k}", "m").Val())
			m[2] = '9'
			rdb.HSet(t.Context(), "tipcache:2:{story-1:k}", "m", m)
		}},
		{"entry moved to another cache key", "ours", "f", "miss uri-miss: f at 100", func() {
			rdb.Rename(t.Context(), "tipcache:2:{story-1:k}", "tipcache:2:{story-1:other}")
			q.Key = "other"
		}},
		{"signed entry without a seal key", "", "g", "miss uri-miss: g at 100", nil},
		{"unsigned entry with a seal key", "ours", "h", "miss uri-miss: h at 100", nil},
	} {
		if step.before != nil {
			step.before()
		}
		c := newReplica(t, addr, cache.Options{}, redis.Options{Settings: redis.Settings{SealKey: step.sealKey}})
		expect.Equal(t, describe(mustGet(t, c, q, answer(100, []byte(step.body))), nil), step.want, "%s: result", step.name)
		waitForIdle(t, c)
	}
}
