package limits_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	tipredis "github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// newReplicas returns two admissions that share the limit of each address in Redis.
func newReplicas(t *testing.T, address string, limit limits.Rate) (replicas [2]*limits.Admission) {
	t.Helper()
	for i := range replicas {
		client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = client.Close() })
		replicas[i] = limits.New(limits.Shared{Redis: expect.Value(tipredis.New(client, tipredis.Options{}))(t)}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		replicas[i].Limits.Store(&limits.Limits{Address: limit})
	}
	return replicas
}

func TestBatchIsCountedInRedisAsAWhole(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(t *testing.T) string{
		"redis-server": func(t *testing.T) string { t.Helper(); address, _ := redistest.Start(t); return address }, "miniredis": func(t *testing.T) string { t.Helper(); return miniredis.RunT(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			replicas := newReplicas(t, address(t), limits.Rate{Requests: 10, Per: time.Hour, Burst: 10})
			who := limits.Client{Address: netip.MustParseAddr("192.0.2.1")}
			var got []string
			for i, n := range []int{0, 4, 4, 3, 2, 1, 10} {
				answer := http.Header{}
				err := replicas[i%2].AdmitMore(t.Context(), &who, n, http.StatusBadRequest, answer)
				got = append(got, fmt.Sprintf("%d: %t %.13s", n, err == nil, answer.Get(limits.StatusHeader)))
			}
			want := []string{"0: true ", `4: true "address";r=6`, `4: true "address";r=2`, `3: false "address";r=2`, `2: true "address";r=0`, `1: false "address";r=0`, "10: false "}
			expect.NoDiff(t, got, want, "admitted requests with the status of the limit")
		})
	}
}

// Streams count each event of each block against the limit.
func TestEventOfClientWithoutLimitsAllocatesNothing(t *testing.T) {
	a := limits.New(limits.Shared{}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	c := limits.Client{Address: netip.MustParseAddr("192.0.2.1")}
	if n := testing.AllocsPerRun(100, func() {
		expect.Equal(t, a.Spend(t.Context(), &c), 0, "wait")
	}); n > 0 {
		t.Errorf("allocations of Spend = %v, want 0", n)
	}
}
