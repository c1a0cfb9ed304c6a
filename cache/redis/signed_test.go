package redis_test

import (
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestOnlySignedEntriesAreRead(t *testing.T) {
	t.Parallel()
	rdb, key := startRedis(t), "k"
	for _, step := range []struct {
		name, sealKey, want, written string // body that is read, or written if there is none
		before                       func()
	}{
		{"first read", "ours", "", "a", nil},
		{"same seal key", "ours", "a", "", nil},
		{"another seal key", "another", "", "c", nil},
		{"entry overwritten with another seal key", "ours", "", "d", nil},
		{"entry with a modified height", "ours", "", "e", func() {
			m := []byte(rdb.HGet(t.Context(), "tipcache:2:{story-1:k}", "m").Val())
			m[2] = '9'
			rdb.HSet(t.Context(), "tipcache:2:{story-1:k}", "m", m)
		}},
		{"entry moved to another cache key", "ours", "", "f", func() {
			rdb.Rename(t.Context(), "tipcache:2:{story-1:k}", "tipcache:2:{story-1:l}")
			key = "l"
		}},
		{"signed entry without a seal key", "", "", "g", nil},
		{"unsigned entry with a seal key", "ours", "", "h", nil},
	} {
		if step.before != nil {
			step.before()
		}
		s := newStore(t, rdb, redis.Options{Settings: redis.Settings{SealKey: step.sealKey}})
		read := func() string {
			t.Helper()
			if e := expect.Value(s.Read(t.Context(), "story-1", key))(t); e != nil {
				return string(e.Body)
			}
			return ""
		}
		expect.Equal(t, read(), step.want, "%s: body", step.name)
		if step.written != "" {
			expect.NoError(t, acquireLeases(t, s, key)[0].Publish(t.Context(), entry(100, step.written), time.Hour))
			expect.Equal(t, read(), step.written, "%s: body after the write", step.name)
		}
	}
}

func TestUnsignedLeaseIsTaken(t *testing.T) {
	t.Parallel()
	const at, ours = "tipcache:2:{story-1:k}:l", "a key of replicas"
	rdb := startRedis(t)
	for name, tt := range map[string]struct {
		token, sealKey, key string // the token, or the key for which a replica with a seal key makes it
		age, flight         time.Duration
		want                cache.LeaseState
	}{
		"arbitrary text":                                {"somebody", "", "", 0, 0, cache.LeaseGranted},
		"of a replica without the seal key":             {"", "", "k", 0, 0, cache.LeaseGranted},
		"of another key":                                {"", ours, "l", 0, 0, cache.LeaseGranted},
		"of two minutes ago":                            {"", ours, "k", 2 * time.Minute, 0, cache.LeaseGranted},
		"new, of the same key":                          {"", ours, "k", 0, 0, cache.LeaseBusy},
		"of two minutes ago, while flights last longer": {"", ours, "k", 2 * time.Minute, 3 * time.Minute, cache.LeaseBusy},
	} {
		expect.NoError(t, rdb.FlushAll(t.Context()).Err())
		token := tt.token
		if token == "" {
			holder := newStore(t, rdb, redis.Options{Settings: redis.Settings{SealKey: tt.sealKey}, Now: func() time.Time { return time.Now().Add(-tt.age) }})
			acquireLeases(t, holder, tt.key)
			token = expect.Value(rdb.GetDel(t.Context(), "tipcache:2:{story-1:"+tt.key+"}:l").Result())(t)
		}
		expect.NoError(t, rdb.Set(t.Context(), at, token, time.Hour).Err())
		s := newStore(t, rdb, redis.Options{Settings: redis.Settings{SealKey: ours}, FlightTimeout: tt.flight})
		l := s.NewLease("story-1", "k", 0, false)
		reply := expect.Value(l.Acquire(t.Context(), nil))(t)
		expect.Equal(t, reply.State, tt.want, "state of the lease with a token %s", name)
		if tt.want == cache.LeaseGranted {
			expect.NoError(t, l.Publish(t.Context(), entry(100, "x"), time.Hour))
			expect.NoDiff(t, rdb.Keys(t.Context(), "*").Val(), []string{"tipcache:2:{story-1:k}"}, "keys after the write, with a token %s", name)
		}
	}
}
