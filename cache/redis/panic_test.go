package redis_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	peers "github.com/alicebob/miniredis/v2/server"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// The client library panics on a list that is longer than memory, and on an empty message.
func TestClientPanicOnReplyIsAnError(t *testing.T) {
	server := miniredis.RunT(t)
	server.Server().SetPreHook(func(peer *peers.Peer, cmd string, _ ...string) bool {
		switch cmd {
		case "HELLO", "CLIENT":
			return false // the client must be able to connect
		case "SUBSCRIBE":
			peer.WriteLen(0)
		case "SCAN":
			peer.WriteLen(2)
			peer.WriteBulk("0")
			peer.WriteLen(math.MaxInt)
		default:
			peer.WriteLen(math.MaxInt)
		}
		return true
	})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	lease := func(s *redis.Store) cache.Lease { return s.NewLease("story-1", "k", 0, false) }
	for name, run := range map[string]func(*redis.Store) error{
		"Read":    func(s *redis.Store) error { _, err := s.Read(ctx, "story-1", "k"); return err },
		"Load":    func(s *redis.Store) error { _, err := s.Load(ctx, "story-1", "k", "l"); return err },
		"Acquire": func(s *redis.Store) error { _, err := lease(s).Acquire(ctx, nil); return err },
		"Publish": func(s *redis.Store) error { return lease(s).Publish(ctx, entry(100, "x"), time.Hour) },
		"Inspect": func(s *redis.Store) error { _, err := s.Inspect(ctx, "story-1", "k"); return err },
		"Purge":   func(s *redis.Store) error { _, err := s.Purge(ctx, cache.Selection{}, "story-1"); return err },
	} {
		reg := prometheus.NewRegistry()
		s := newStore(t, redistest.Client(t, server.Addr()), redis.Options{Registerer: reg})
		if err := run(s); err == nil {
			t.Errorf("%s: error = nil, want one", name)
		}
		expect.Equal(t, expect.Metric(t, reg, "tipcache_cache_shared_errors_total", "panic"), 1, "panics of %s", name)
	}
	reg := prometheus.NewRegistry()
	s, ended := newStore(t, redistest.Client(t, server.Addr()), redis.Options{Registerer: reg}), make(chan bool)
	go func() {
		s.Subscribe(ctx, "story-1", make(subscriber, 1))
		close(ended)
	}()
	expect.EventuallyAtLeast(t, "panics of Subscribe", func() float64 { return expect.Metric(t, reg, "tipcache_cache_shared_errors_total", "panic") }, 1)
	end()
	<-ended
}
