package redis_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// setUser gives the user tipcache permissions in addition to those for all keys and commands.
func setUser(t *testing.T, address, permissions string) {
	t.Helper()
	command := []any{"acl", "setuser", "tipcache", "reset", "on", ">secret", "~tipcache:*", "+@all"}
	for word := range strings.FieldsSeq(permissions) {
		command = append(command, word)
	}
	expect.NoError(t, redistest.Client(t, address).Do(t.Context(), command...).Err())
}

// Without messages, the callers of a key wait until the lease of another replica expires.
func TestForbiddenSubscriptionIsAnOutage(t *testing.T) {
	t.Parallel()
	for _, permissions := range []string{"resetchannels", "&tipcache:* -subscribe"} {
		address, _ := redistest.Start(t)
		setUser(t, address, permissions)
		s := expect.Value(redis.Open(redis.Options{Settings: redis.Settings{URL: "redis://tipcache:secret@" + address}}))(t)
		ctx, end := context.WithCancel(t.Context())
		var subscription sync.WaitGroup
		messages := make(subscriber, 100)
		subscription.Go(func() { s.Subscribe(ctx, "story-1", messages) })
		failing := func() (names string) {
			for _, o := range s.Outages() {
				if o.Failing() {
					names += o.Name()
				}
			}
			return names
		}
		expect.EventuallyEqual(t, "failing outages with "+permissions, failing, "messages of Redis")
		setUser(t, address, "&tipcache:*")
		expect.EventuallyEqual(t, "failing outages once messages are permitted", failing, "")
		end()
		subscription.Wait()
		expect.NoError(t, s.Close())
	}
}

func TestCheckNamesWhatRedisForbids(t *testing.T) {
	t.Parallel()
	address, _ := redistest.Start(t)
	s := expect.Value(redis.Open(redis.Options{Settings: redis.Settings{URL: "redis://tipcache:secret@" + address, Timeout: 10 * time.Second}}))(t)
	defer s.Close()
	for _, tt := range []struct{ permissions, want string }{
		{"&tipcache:*", ""},
		{"&tipcache:* -@all +@read +@write +@scripting +@pubsub +@connection +time +info +cluster|slots +cluster|shards", ""}, // of the manual
		{"&tipcache:* resetkeys ~other:*", "it does not let tipcache read keys: NOPERM"},
		{"&tipcache:* -@scripting", "it refuses scripts: NOPERM"},
		{"&tipcache:* -@write", "it refuses writes: ERR The user"},
		{"&tipcache:* resetkeys ~tipcache:2:*", "it refuses writes: NOPERM"},
		{"&tipcache:* -publish", "it refuses messages: ERR The user"},
		{"resetchannels", "it refuses messages: ERR The user"},
		{"&tipcache:* -subscribe", "it refuses subscriptions: NOPERM"},
	} {
		setUser(t, address, tt.permissions)
		_, err := s.Check(t.Context())
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("Check with %s = %v, want %q", tt.permissions, err, tt.want)
		}
	}
	setUser(t, address, "&tipcache:*")
	expect.NoError(t, redistest.Client(t, address).ConfigSet(t.Context(), "maxmemory", "1").Err())
	if _, err := s.Check(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "it refuses writes: OOM") {
		t.Errorf("Check of a full Redis = %v, want its OOM", err)
	}
	expect.Equal(t, redistest.Client(t, address).DBSize(t.Context()).Val(), 0, "keys after all checks")
}
