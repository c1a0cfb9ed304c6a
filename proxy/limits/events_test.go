package limits_test

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/proxy/limits"
)

func TestEventsArePaidForInRedisSeveralAtOnceWithinTheLimitOfAllReplicas(t *testing.T) {
	server := miniredis.RunT(t)
	const burst = 320
	var replicas [2]*limits.Admission
	for i := range replicas {
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = client.Close() })
		replicas[i] = limits.New(limits.Shared{Redis: client}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		replicas[i].Limits.Store(&limits.Limits{Address: limits.Rate{Requests: burst, Per: 100 * time.Hour, Burst: burst}})
	}
	who := limits.Client{Address: netip.MustParseAddr("192.0.2.1")}
	if wait := replicas[0].Spend(t.Context(), &who); wait > 0 {
		t.Fatalf("the first waits %v", wait)
	}
	paid, before := 1, server.CommandCount()
	for range burst {
		for _, a := range replicas {
			if a.Spend(t.Context(), &who) == 0 {
				paid++
			}
		}
		if paid == 101 {
			if calls := server.CommandCount() - before; calls > 40 {
				t.Errorf("100 events cost %d commands of Redis", calls)
			}
		}
	}
	if paid != burst {
		t.Errorf("%d events were paid for, want %d", paid, burst)
	}
}
