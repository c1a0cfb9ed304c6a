package limits_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// replicasOf share the limit of each address in a Redis.
func replicasOf(t *testing.T, address string, each limits.Rate) (replicas [2]*limits.Admission) {
	t.Helper()
	for i := range replicas {
		client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = client.Close() })
		replicas[i] = limits.New(limits.Shared{Redis: client}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		replicas[i].Limits.Store(&limits.Limits{Address: each})
	}
	return replicas
}

// realRedis is the address of a Redis that runs as long as the test, which is skipped
// without one.
func realRedis(t *testing.T) (address string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("install redis-server to run this test: it has to be on the PATH")
	}
	address = porttest.Address(t)
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	expect.NoError(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	client := redis.NewClient(&redis.Options{Addr: address})
	t.Cleanup(func() { _ = client.Close() })
	for client.Ping(t.Context()).Err() != nil {
		time.Sleep(10 * time.Millisecond)
	}
	return address
}

func TestBatchIsCountedInRedisAsAWhole(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(t *testing.T) string{
		"a real one": realRedis, "as tests have it": func(t *testing.T) string { t.Helper(); return miniredis.RunT(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			replicas := replicasOf(t, address(t), limits.Rate{Requests: 10, Per: time.Hour, Burst: 10})
			who := limits.Client{Address: netip.MustParseAddr("192.0.2.1")}
			var got []string
			for i, n := range []int{0, 4, 4, 3, 2, 1, 10} {
				answer := http.Header{}
				_, err := replicas[i%2].AdmitMore(t.Context(), &who, n, http.StatusBadRequest, answer)
				got = append(got, fmt.Sprintf("%d: %t %.13s", n, err == nil, answer.Get(limits.StatusHeader)))
			}
			want := []string{"0: true ", `4: true "address";r=6`, `4: true "address";r=2`, `3: false "address";r=0`, `2: true "address";r=0`, `1: false "address";r=0`, "10: false "}
			expect.NoDiff(t, got, want, "values")
		})
	}
}

func TestEventsAreTakenFromRedisInBatchesWithinSharedLimit(t *testing.T) {
	server := miniredis.RunT(t)
	const burst = 320
	replicas := replicasOf(t, server.Addr(), limits.Rate{Requests: burst, Per: 100 * time.Hour, Burst: burst})
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
	expect.Equal(t, paid, burst, "events paid for")
}

// Streams pay for each event at each block.
func TestEventOfClientWithoutLimitsAllocatesNothing(t *testing.T) {
	a := limits.New(limits.Shared{}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	c := limits.Client{Address: netip.MustParseAddr("192.0.2.1")}
	if n := testing.AllocsPerRun(100, func() {
		expect.Equal(t, a.Spend(t.Context(), &c), 0, "wait")
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
