package cache_test

import (
	"testing"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
)

func TestOnlySignedEntriesAreServed(t *testing.T) {
	rdb := client(t, startRedis(t).addr)
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	asks := func(key, body string) string {
		t.Helper()
		c := sharing(t, rdb, cache.Options{}, redis.Options{SealKey: []byte(key)})
		c.SetNamespace("story-1")
		line := tell(mustGet(t, c, q, answer(100, []byte(body))), nil)
		idle(t, c)
		return line
	}
	steps := []struct {
		name, key, body, want string
		before                func()
	}{
		{"the first is sealed", "ours", "a", "miss uri-miss: a at 100", nil},
		{"who has the key reads it", "ours", "b", "hit shared: a at 100", nil},
		{"another key does not, and overwrites it", "another", "c", "miss uri-miss: c at 100", nil},
		{"which the first key does not read", "ours", "d", "miss uri-miss: d at 100", nil},
		{"a height that was changed breaks the seal", "ours", "e", "miss uri-miss: e at 100", func() {
			m := []byte(rdb.HGet(t.Context(), "tipcache:1:{story-1:k}", "m").Val())
			m[2] = '9'
			rdb.HSet(t.Context(), "tipcache:1:{story-1:k}", "m", m)
		}},
		{"an entry of another key is none of this", "ours", "f", "miss uri-miss: f at 100", func() {
			rdb.Rename(t.Context(), "tipcache:1:{story-1:k}", "tipcache:1:{story-1:other}")
			q.Key = "other"
		}},
		{"without a key a sealed one is not read", "", "g", "miss uri-miss: g at 100", nil},
		{"nor one without a seal with a key", "ours", "h", "miss uri-miss: h at 100", nil},
	}
	for _, s := range steps {
		if s.before != nil {
			s.before()
		}
		if got := asks(s.key, s.body); got != s.want {
			t.Errorf("%s: %s, want %s", s.name, got, s.want)
		}
	}
}
