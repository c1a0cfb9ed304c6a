package cache_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/logtest"
)

func TestRedisThatRefusesWritesIsDegraded(t *testing.T) {
	t.Parallel()
	set := func(name, value string) func(context.Context, *goredis.Client) error {
		return func(ctx context.Context, rdb *goredis.Client) error { return rdb.ConfigSet(ctx, name, value).Err() }
	}
	do := func(args ...any) func(context.Context, *goredis.Client) error {
		return func(ctx context.Context, rdb *goredis.Client) error { return rdb.Do(ctx, args...).Err() }
	}
	for name, tt := range map[string]struct {
		refuse, allow func(context.Context, *goredis.Client) error
		cause         string
	}{
		"full":             {set("maxmemory", "1"), set("maxmemory", "0"), "OOM"},
		"read-only":        {do("REPLICAOF", "127.0.0.1", "1"), do("REPLICAOF", "NO", "ONE"), "READONLY"},
		"no script rights": {do("ACL", "SETUSER", "default", "-@scripting"), do("ACL", "SETUSER", "default", "+@scripting"), "NOPERM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, log := startRedis(t).addr, &logtest.Log{}
			store, err := redis.New(client(t, addr), redis.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			c := newCache(t, cache.Options{Shared: store})
			c.SetNamespace("chain-1")
			n := 0
			read := func() {
				n++
				mustGet(t, c, cache.Query{Key: fmt.Sprint("k", n), Policy: live, Tip: 100}, answer(100, page))
			}
			read()
			if causes := store.Outages().Causes(); len(causes) > 0 {
				t.Fatalf("degraded while Redis is well: %v", causes)
			}
			admin := client(t, addr)
			if err := tt.refuse(t.Context(), admin); err != nil {
				t.Fatal(err)
			}
			eventually(t, "Redis is degraded for writes", func() bool {
				read()
				causes := store.Outages().Causes()
				return slices.Equal(slices.Collect(maps.Keys(causes)), []string{"writes to Redis"}) && strings.Contains(causes["writes to Redis"], tt.cause)
			})
			if err := tt.allow(t.Context(), admin); err != nil {
				t.Fatal(err)
			}
			eventually(t, "Redis is well", func() bool { read(); return len(store.Outages().Causes()) == 0 })
			for _, line := range []string{`msg="upstream unreachable" origin="writes to Redis"`, tt.cause, `msg="upstream reachable again" origin="writes to Redis"`} {
				if log.Count(line) != 1 {
					t.Errorf("%q is logged %d times, want once:\n%s", line, log.Count(line), log.String())
				}
			}
		})
	}
}
