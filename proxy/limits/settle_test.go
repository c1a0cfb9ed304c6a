package limits_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	tipredis "github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// fleet is a number of replicas in a bubble of synctest that share the limit of each address.
type fleet struct {
	t        *testing.T
	server   *miniredis.Miniredis
	toggle   chan bool // true starts the server, false kills it
	replicas []*limits.Admission
	tick     time.Duration
}

const fleetSize = 3

var perSecond = limits.Rate{Requests: 50, Per: time.Second, Burst: 20}

// runFleet runs a test in a bubble. miniredis is outside, so virtual time stops during an exchange.
func runFleet(t *testing.T, rate limits.Rate, test func(f *fleet)) {
	t.Helper()
	server, toggle := miniredis.RunT(t), make(chan bool)
	go func() { // in the bubble, its goroutines would stop virtual time
		for running := range toggle {
			if server.Close(); running {
				_ = server.Restart()
			}
			toggle <- running
		}
	}()
	defer close(toggle)
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, server: server, toggle: toggle, tick: 10 * time.Millisecond}
		for range fleetSize {
			c := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
			t.Cleanup(func() { _ = c.Close() })
			a := limits.New(limits.Shared{Redis: expect.Value(tipredis.New(c, tipredis.Options{}))(t), Timeout: time.Second}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			a.Limits.Store(&limits.Limits{Address: rate})
			f.replicas = append(f.replicas, a)
		}
		test(f)
		f.idle(time.Second) // the last settlement
	})
}

func (f *fleet) idle(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(f.tick)
		f.server.SetTime(time.Now())
		f.server.FastForward(f.tick)
	}
}

// flood sends requests of an address to all replicas, as many as they admit, and returns that number.
func (f *fleet) flood(from netip.Addr, d time.Duration) (admitted int) {
	for end := time.Now().Add(d); time.Now().Before(end); f.idle(f.tick) {
		for _, a := range f.replicas {
			for a.Admit(f.t.Context(), &limits.Client{Address: from}, http.Header{}) == nil {
				admitted++
			}
		}
	}
	return admitted
}

// most returns the most requests that the replicas may admit in a time.
func most(r limits.Rate, d time.Duration) int {
	const unsettled = 300 * time.Millisecond // between two settlements
	return int(float64(r.Requests)*(d.Seconds()+fleetSize*unsettled.Seconds())/r.Per.Seconds()) + fleetSize*r.Burst
}

func expectWithin(t *testing.T, got, least, most int, what string) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s = %d, want %d to %d", what, got, least, most)
	}
}

func TestReplicasTogetherKeepTheRate(t *testing.T) {
	t.Parallel()
	for name, rate := range map[string]limits.Rate{
		"small burst": perSecond, "large burst": {Requests: 50, Per: time.Second, Burst: 200}, "one per second": {Requests: 60, Per: time.Minute, Burst: 5},
		"a burst of one": {Requests: 50, Per: time.Second, Burst: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runFleet(t, rate, func(f *fleet) {
				got := f.flood(client, time.Minute)
				expectWithin(f.t, got, rate.Requests*int(time.Minute/rate.Per)-rate.Burst/10, most(rate, time.Minute), "requests admitted in a minute")
			})
		})
	}
}

// A client that waits until its buckets are full in all replicas gains only their bursts.
func TestPausesDoNotRaiseTheRate(t *testing.T) {
	t.Parallel()
	runFleet(t, perSecond, func(f *fleet) {
		began, admitted := time.Now(), 0
		for time.Since(began) < time.Minute {
			admitted += f.flood(client, 20*time.Millisecond)
			f.idle(400 * time.Millisecond)
		}
		expectWithin(f.t, admitted, 0, most(perSecond, time.Minute), "requests admitted in a minute with pauses of a window")
		f.idle(5 * time.Second)
		expectWithin(f.t, f.flood(client, time.Millisecond), fleetSize*perSecond.Burst, fleetSize*perSecond.Burst, "requests admitted at once after a long pause")
	})
}

func TestClientOfOneReplicaGetsItsWholeRate(t *testing.T) {
	t.Parallel()
	runFleet(t, limits.Rate{Requests: 50, Per: time.Second, Burst: 50}, func(f *fleet) {
		f.replicas, f.tick = f.replicas[:1], 7*time.Millisecond // the clock of Redis moves at no instant of a settlement
		for second := range 20 {
			expect.Equal(f.t, f.flood(client, time.Nanosecond), 50, "requests admitted at once in second %d", second)
			f.idle(time.Second - f.tick)
		}
	})
}

func TestRequestsDuringAnOutageAreNotCharged(t *testing.T) {
	t.Parallel()
	runFleet(t, perSecond, func(f *fleet) {
		const d = 20 * time.Second
		f.flood(client, d)
		f.toggle <- false
		<-f.toggle
		got := f.flood(client, d)
		expectWithin(f.t, got, fleetSize*perSecond.Requests*18, fleetSize*(perSecond.Requests*20+perSecond.Burst), "requests admitted without Redis")
		f.toggle <- true
		<-f.toggle
		f.flood(client, 5*time.Second) // until each replica has tried Redis
		expectWithin(f.t, f.flood(client, d), perSecond.Requests*19, most(perSecond, d), "requests admitted with Redis again")
	})
}

func TestForeignBucketsAreIgnored(t *testing.T) {
	t.Parallel()
	runFleet(t, perSecond, func(f *fleet) {
		f.flood(client, time.Second)
		keys := f.server.Keys()
		if len(keys) != 1 || !strings.HasPrefix(keys[0], "tipcache:1:rate::address:50/1s/20:") {
			f.t.Fatalf("keys in Redis = %q, want one bucket", keys)
		}
		for _, foreign := range []string{"", "text", "1e300", "inf", "nan", "-5", fmt.Sprint(time.Now().Add(time.Hour).UnixMicro()), "a list"} {
			if f.server.Del(keys[0]); foreign == "a list" {
				_, _ = f.server.Push(keys[0], "1")
			} else {
				_ = f.server.Set(keys[0], foreign)
			}
			expectWithin(f.t, f.flood(client, 5*time.Second), perSecond.Requests*4, most(perSecond, 5*time.Second), "requests admitted after the foreign value "+foreign)
		}
		// The longest debt is within reach of a writer.
		_ = f.server.Set(keys[0], fmt.Sprint(time.Now().Add(10*time.Second).UnixMicro()))
		f.flood(client, time.Second)
		expectWithin(f.t, f.flood(client, 12*time.Second), perSecond.Requests*2, perSecond.Requests*4, "requests admitted after the longest debt")
	})
}

func TestDebtIsCapped(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(t *testing.T) string{
		"redis-server": func(t *testing.T) string { t.Helper(); address, _ := redistest.Start(t); return address }, "miniredis": func(t *testing.T) string { t.Helper(); return miniredis.RunT(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			c := redis.NewClient(&redis.Options{Addr: address(t), ContextTimeoutEnabled: true})
			defer c.Close()
			b := expect.Value(tipredis.New(c, tipredis.Options{}))(t)
			const window = time.Minute
			spend := func(cost time.Duration, asks bool) upstream.Debit {
				t.Helper()
				d := []upstream.Debit{{Key: "tipcache:1:rate:x", Cost: cost, Most: 10 * window, Asks: asks}}
				expect.NoError(t, b.Spend(t.Context(), d))
				d[0].UntilFull = d[0].UntilFull.Round(window / 10)
				return d[0]
			}
			var got []string
			for _, step := range []struct {
				cost time.Duration
				asks bool
			}{{window, false}, {8 * window, true}, {2 * window, true}, {100 * window, false}, {window, false}} {
				d := spend(step.cost, step.asks)
				got = append(got, fmt.Sprint(d.Done, d.Refused, d.UntilFull))
			}
			expect.NoDiff(t, got, []string{"true false 1m0s", "true false 9m0s", "true true 9m0s", "true false 10m0s", "true false 10m0s"}, "results")
			expect.NoError(t, c.ScriptFlush(t.Context()).Err())
			expect.Equal(t, spend(0, false).UntilFull, 10*window, "time until full after Redis forgot the script")
			ttl := c.PTTL(t.Context(), "tipcache:1:rate:x").Val()
			if ttl < 9*window || ttl > 10*window+time.Second {
				t.Errorf("expiry = %v, want 10m1s", ttl)
			}
		})
	}
}

func TestChangedRateBeginsWithFullBucket(t *testing.T) {
	t.Parallel()
	runFleet(t, perSecond, func(f *fleet) {
		f.flood(client, 5*time.Second)
		changed := limits.Rate{Requests: 10, Per: time.Second, Burst: 30}
		for _, a := range f.replicas {
			a.Limits.Store(&limits.Limits{Address: changed})
		}
		expect.Equal(f.t, f.flood(client, time.Nanosecond), fleetSize*changed.Burst, "requests admitted at once after the change")
		expectWithin(f.t, f.flood(client, 20*time.Second), 10*10, most(changed, 20*time.Second)-fleetSize*changed.Burst, "requests admitted in the 20 s after that")
	})
}

func TestKeyThatIsAddedAgainKeepsItsBucket(t *testing.T) {
	t.Parallel()
	runFleet(t, limits.Rate{}, func(f *fleet) {
		key := keyOf("partner", "secret")
		key.Rate = perSecond
		flood := func(d time.Duration) (admitted int) {
			for end := time.Now().Add(d); time.Now().Before(end); f.idle(f.tick) {
				for _, a := range f.replicas {
					for {
						if _, err := a.AdmitKey(requestWithKey("secret"), http.Header{}); err != nil {
							break
						}
						admitted++
					}
				}
			}
			return admitted
		}
		set := func(keys ...limits.Key) {
			for _, a := range f.replicas {
				a.SetKeys(keys)
			}
		}
		set(key)
		flood(5 * time.Second)
		set()
		expect.Equal(f.t, flood(50*time.Millisecond), 0, "requests admitted with a revoked key")
		set(key)
		expectWithin(f.t, flood(10*time.Second), perSecond.Requests*9, most(perSecond, 10*time.Second)-fleetSize*perSecond.Burst, "requests admitted with the key added again")
	})
}

// A fakeRedis is called with the debits of each exchange.
type fakeRedis func(debits []upstream.Debit) error

func (f fakeRedis) Spend(_ context.Context, debits []upstream.Debit) error { return f(debits) }

func newFakeShared(f fakeRedis) *limits.Admission {
	a := limits.New(limits.Shared{Redis: f}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	a.Limits.Store(&limits.Limits{Address: perSecond})
	return a
}

func TestReplicaIgnoresResultsOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var untilFull time.Duration
		a := newFakeShared(func(debits []upstream.Debit) error {
			for i := range debits {
				debits[i].Done, debits[i].UntilFull = true, untilFull
			}
			return nil
		})
		for _, untilFull = range []time.Duration{-time.Second, 12 * time.Second, 1000 * time.Hour} {
			expect.Equal(t, countAdmitted(t, a, 1), 1, "requests admitted")
			time.Sleep(time.Second)
			synctest.Wait()
			expect.Equal(t, countAdmitted(t, a, 1), 1, "requests admitted after the result %v", untilFull)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		untilFull = 10 * time.Second
		countAdmitted(t, a, 1)
		time.Sleep(time.Second)
		synctest.Wait()
		expect.Equal(t, countAdmitted(t, a, 1), 0, "requests admitted after the longest debt")
	})
}

func TestClientsWithMostRequestsAreSettledFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const busy, rare = 1500, 1500 // clients; two of three settlements would go to the busy ones alone
		settled, exchanges := map[string]bool{}, 0
		a := newFakeShared(func(debits []upstream.Debit) error {
			exchanges++
			if len(debits) > 1000 {
				t.Errorf("clients in an exchange = %d, want at most 1000", len(debits))
			}
			for _, d := range debits {
				if strings.Contains(d.Key, ":10.1.") {
					settled[d.Key] = true
				}
			}
			return nil
		})
		admit := func(network byte, clients, requests int) {
			for n := range clients * requests {
				_ = a.Admit(t.Context(), &limits.Client{Address: netip.AddrFrom4([4]byte{10, network, byte(n / requests >> 8), byte(n / requests)})}, http.Header{})
			}
		}
		admit(1, rare, 1)
		admit(0, busy, 2)
		time.Sleep(100 * time.Millisecond) // between two exchanges
		for range 11 {
			admit(0, busy, 2)
			time.Sleep(250 * time.Millisecond)
		}
		synctest.Wait()
		expect.Equal(t, len(settled), 0, "clients with one request that are settled before 3 s")
		for range 5 {
			admit(0, busy, 2)
			time.Sleep(250 * time.Millisecond)
		}
		synctest.Wait()
		expect.Equal(t, len(settled), rare, "clients with one request that are settled within 4 s")
		time.Sleep(time.Minute)
		synctest.Wait()
		expectWithin(t, exchanges, 16, 20, "exchanges, which end when nothing is left to settle")
	})
}

func TestClientsThatWaitForTheirTurnWhileRedisFailsAreNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 2500
		fails, charged := true, map[string]time.Duration{}
		a := newFakeShared(func(debits []upstream.Debit) error {
			if fails {
				return errors.New("refused")
			}
			for _, d := range debits {
				charged[d.Key] += d.Cost
			}
			return nil
		})
		for _, fails = range []bool{true, false} {
			for n := range clients {
				_ = a.Admit(t.Context(), &limits.Client{Address: netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})}, http.Header{})
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
		}
		expect.Equal(t, len(charged), clients, "charged clients")
		for key, cost := range charged {
			expect.Equal(t, cost, 20*time.Millisecond, "charge of %s for one request during the outage and one after it", key)
		}
	})
}

// hangingRedis answers no exchange.
type hangingRedis struct{}

func (hangingRedis) Spend(ctx context.Context, _ []upstream.Debit) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestRequestsAreSettledWhenReplicaEnds(t *testing.T) {
	const clients = 2500
	admitAll := func(a *limits.Admission) {
		for n := range clients {
			_ = a.Admit(t.Context(), &limits.Client{Address: netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})}, http.Header{})
		}
	}
	t.Run("all clients are charged", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			charged := map[string]time.Duration{}
			a := newFakeShared(func(debits []upstream.Debit) error {
				for _, d := range debits {
					charged[d.Key] += d.Cost
				}
				return nil
			})
			admitAll(a)
			a.Settle(t.Context())
			expect.Equal(t, len(charged), clients, "charged clients")
			time.Sleep(time.Minute)
			synctest.Wait()
			for key, cost := range charged {
				expect.Equal(t, cost, 20*time.Millisecond, "charge of %s after a minute", key)
			}
		})
	})
	t.Run("failing Redis is asked once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			exchanges := 0
			a := newFakeShared(func([]upstream.Debit) error { exchanges++; return errors.New("refused") })
			admitAll(a)
			a.Settle(t.Context())
			expect.Equal(t, exchanges, 1, "exchanges")
		})
	})
	t.Run("hanging Redis ends with the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := limits.New(limits.Shared{Redis: hangingRedis{}, Timeout: 3 * time.Second}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			a.Limits.Store(&limits.Limits{Address: perSecond})
			admitAll(a)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			a.Settle(ctx)
			expect.Equal(t, time.Since(began), time.Second, "duration of Settle")
			time.Sleep(time.Minute) // until the exchange that began before Settle ends
		})
	})
	t.Run("another replica does not grant them again", func(t *testing.T) {
		runFleet(t, perSecond, func(f *fleet) {
			ending, other := f.replicas[0], f.replicas[1]
			f.replicas = f.replicas[:1]
			expect.Equal(f.t, f.flood(client, time.Nanosecond), perSecond.Burst, "requests admitted by the replica that ends")
			ending.Settle(f.t.Context())
			expect.NoError(f.t, other.Admit(f.t.Context(), &limits.Client{Address: client}, http.Header{}))
			f.idle(260 * time.Millisecond) // until its settlement
			f.replicas = []*limits.Admission{other}
			expectWithin(f.t, f.flood(client, time.Nanosecond), 10, 13, "requests admitted by the other, 270 ms after the bucket was empty")
		})
	})
}
