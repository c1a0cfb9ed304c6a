package redis

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestRedisThatDeniesAccessIsAnOutage(t *testing.T) {
	const noAuth, wrongPass, noPerm = "NOAUTH Authentication required.", "WRONGPASS invalid username-password pair or user is disabled.", "NOPERM this user has no permissions to run the command"
	read := func(s *Store) { _, _ = s.Read(t.Context(), "story-1", "k") }
	load := func(s *Store) { _, _ = s.Load(t.Context(), "story-1", "k", "l") }
	acquire := func(s *Store) { _, _ = s.NewLease("story-1", "k", 0, false).Acquire(t.Context(), nil) }
	save := func(s *Store) {
		s.Save(t.Context(), "story-1", map[string]*cache.Entry{"k": entryAt(7)}, time.Hour)
	}
	agree := func(s *Store) { _, _ = s.Agreement(t.Context(), "story-1", 7) }
	for _, tt := range []struct {
		reply string
		name  string
		run   func(*Store)
		want  string
	}{
		{noAuth, "read", read, "open"},
		{noAuth, "load", load, "open"},
		{noAuth, "acquire", acquire, "open"},
		{noAuth, "save", save, "open"},
		{noAuth, "agree", agree, "open"},
		{"ERR Protocol error: unauthenticated multibulk length", "acquire", acquire, "open"},
		{wrongPass, "read", read, "open"},
		{wrongPass, "acquire", acquire, "open"},
		{noPerm, "read", read, "open"},
		{noPerm, "load", load, "open"},
		{noPerm, "acquire", acquire, "closed"},
		{noPerm, "save", save, "closed"},
		{"WRONGTYPE Operation against a key holding the wrong kind of value", "read", read, "closed"},
	} {
		s, server := newStore(t)
		server.SetError(tt.reply)
		for range failuresToOpen {
			tt.run(s)
		}
		expect.Equal(t, s.State(), tt.want, "state of the breaker after %s with the reply %q", tt.name, tt.reply)
		expect.Equal(t, s.outage.Failing(), tt.want == "open", "failing after %s with the reply %q", tt.name, tt.reply)
	}
}

func TestChangedPasswordIsAnOutage(t *testing.T) {
	s, server := newStore(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "old", ContextTimeoutEnabled: true, DialerRetries: 1})
	defer rdb.Close()
	s.rdb = rdb
	server.RequireAuth("new")
	for range failuresToOpen {
		_, _ = s.Read(t.Context(), "story-1", "k")
	}
	expect.Equal(t, s.State(), "open", "state of the breaker")
}

func TestIdleStoreAsksRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := expect.Value(New(redis.NewClient(&redis.Options{}), Options{}))(t)
		defer s.rdb.Close()
		trips := &roundTrips{}
		s.rdb.AddHook(trips)
		s.rdb.AddHook(answering{})
		asked := func(want int, when string) {
			t.Helper()
			s.Probe(t.Context(), "story-1")
			expect.Equal(t, trips.count, want, "round trips %s", when)
		}
		asked(1, "at the start")
		asked(1, "at once")
		time.Sleep(probeAfter)
		asked(2, "after a pause")
		time.Sleep(probeAfter)
		expect.Value(s.Read(t.Context(), "story-1", "k"))(t)
		asked(3, "after a read")
	})
}

// answering is a hook that answers every command without a network.
type answering struct{ redis.Hook }

func (answering) DialHook(next redis.DialHook) redis.DialHook { return next }

func (answering) ProcessHook(redis.ProcessHook) redis.ProcessHook { return answer }

func (answering) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func answer(context.Context, redis.Cmder) error { return nil }
