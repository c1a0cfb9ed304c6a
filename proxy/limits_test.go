package proxy_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// twice is a rate that a test does not outlast.
var twice = limits.Rate{Requests: 2, Per: time.Minute, Burst: 2}

func TestAnAddressThatAsksTooOftenIsRefused(t *testing.T) {
	s := startChain(t, proxy.Options{Web: web.Options{Limits: limits.Limits{Address: twice}}})
	for left := range 2 {
		got := s.get(t, anyPath)
		if got.status != http.StatusOK {
			t.Fatalf("status %d", got.status)
		}
		got.has(t, "RateLimit", `"address";r=`+strconv.Itoa(1-left)+`;t=`+strconv.Itoa(30+30*left))
		got.has(t, "RateLimit-Policy", `"address";q=2;w=60`)
	}
	for _, path := range []string{anyPath, "/staking/params", "/nowhere"} {
		got := s.get(t, path)
		got.refuses(t, http.StatusTooManyRequests, `{"code":429,"msg":{},"error":"too many requests: the limit of this address is 2 in 1m0s"}`+"\n")
		got.has(t, "Retry-After", "30")
		got.has(t, "RateLimit", `"address";r=0;t=60`)
		got.has(t, "Cache-Control", "no-store")
	}
}

func TestKeyThatAsksTooOftenIsRefused(t *testing.T) {
	s := startList(t, listing.Options{}, withKeys(keyOf("small", "one")), func(o *proxy.Options) { o.Web.Limits.Key = twice })
	s.statusWith(t, "one")
	s.statusWith(t, "one")
	res, body := s.post(t, `{}`, "X-Api-Key", "one")
	same(t, `{"$schema":"https://host/api/v4/Problem.json","type":"about:blank","title":"Too Many Requests","status":429,
		"detail":"too many requests: the limit of this key is 2 in 1m0s","instance":"/api/v4/collections#req-1","errors":[]}`, body)
	if after, err := strconv.Atoi(res.Header.Get("Retry-After")); err != nil || after < 1 || after > 30 {
		t.Errorf("Retry-After: %d, %v, want what is left of 30", after, err)
	}
	wantHeader(t, res, "RateLimit-Policy", `"key";q=2;w=60`)
}

func TestGuessingKeysIsLimitedByAddress(t *testing.T) {
	s := startList(t, listing.Options{}, func(o *proxy.Options) { o.Web.Limits.Address = twice })
	for _, want := range []int{http.StatusUnauthorized, http.StatusUnauthorized, http.StatusTooManyRequests} {
		if got := s.statusWith(t, "guess"); got != want {
			t.Errorf("status %d, want %d", got, want)
		}
	}
}

func TestLimitsChangeWhileServing(t *testing.T) {
	s := startList(t, listing.Options{})
	steps := []struct {
		name string
		rate limits.Rate
		want []int
	}{
		{"none", limits.Rate{}, []int{200, 200, 200}},
		{"a limit", twice, []int{200, 200, 429}},
		{"a wider one", limits.Rate{Requests: 3, Per: time.Minute, Burst: 3}, []int{200, 200, 200, 429}},
		{"none again", limits.Rate{}, []int{200}},
	}
	for _, step := range steps {
		s.proxy.SetLimits(limits.Limits{Key: step.rate})
		var got []int
		for range step.want {
			got = append(got, s.statusWith(t, testKey))
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// redisAt makes a client as the service has it.
func redisAt(t *testing.T, address string) *redis.Client {
	t.Helper()
	const timeout = 50 * time.Millisecond
	client := redis.NewClient(&redis.Options{
		Addr: address, ContextTimeoutEnabled: true, MaxRetries: -1,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func sharing(t *testing.T, address, scope string, in limits.Limits) proxy.Options {
	t.Helper()
	return proxy.Options{Web: web.Options{Limits: in, SharedLimits: limits.Shared{Redis: redisAt(t, address), Timeout: 50 * time.Millisecond, Namespace: func() string { return scope }}}}
}

// lostAtFirst stands for a Redis: commands fail until it is well, and then each
// bucket allows.
type lostAtFirst struct{ well atomic.Bool }

func (*lostAtFirst) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*lostAtFirst) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *lostAtFirst) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if !l.well.Load() {
			cmd.SetErr(errors.New("no route"))
			return cmd.Err()
		}
		cmd.(*redis.Cmd).SetVal([]any{int64(1), int64(5), "-1", "1"})
		return nil
	}
}

func TestTheLossOfSharedLimitsIsToldOnceEachWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		var server lostAtFirst
		client := redis.NewClient(&redis.Options{})
		defer func() { _ = client.Close() }()
		client.AddHook(&server)
		h, _ := newChainProxy(t, proxy.Options{Web: web.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Limits: limits.Limits{Address: limits.Rate{Requests: 1000, Per: time.Second, Burst: 1000}}, SharedLimits: limits.Shared{Redis: client},
		}})
		for range 100 { // ten times as long as the breaker rests
			inProcess(h, anyPath, "")
			time.Sleep(200 * time.Millisecond)
		}
		server.well.Store(true)
		time.Sleep(3 * time.Second)
		inProcess(h, anyPath, "")
		for _, line := range []string{`msg="upstream unreachable" origin="shared limits" error="no route"`, `msg="upstream reachable again" origin="shared limits"`} {
			if got := strings.Count(log.String(), line); got != 1 {
				t.Errorf("%d lines with %s:\n%s", got, line, log.String())
			}
		}
	})
}

func TestARedisThatHangsIsNotWaitedForTwice(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	s := startChain(t, sharing(t, hole.Addr().String(), "one", limits.Limits{Address: limits.Rate{Requests: 1000, Per: time.Second, Burst: 1000}}))
	var tries atomic.Int64
	go func() {
		for {
			conn, err := hole.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			tries.Add(1)
		}
	}()
	for range 100 {
		if got := s.get(t, anyPath); got.status != http.StatusOK {
			t.Fatalf("status %d", got.status)
		}
	}
	if n := tries.Load(); n == 0 || n > 50 {
		t.Errorf("for 100 requests Redis was tried %d times", n)
	}
}

// The client library panics on a list longer than memory.
func TestAReplyOfRedisThatMakesNoSenseLimitsNobody(t *testing.T) {
	store := miniredis.RunT(t)
	store.Server().SetPreHook(func(peer *server.Peer, cmd string, _ ...string) bool {
		if cmd == "HELLO" || cmd == "CLIENT" {
			return false // the client must get as far as a command
		}
		peer.WriteLen(math.MaxInt)
		return true
	})
	s := startChain(t, sharing(t, store.Addr(), "one", limits.Limits{Address: twice}))
	for range 2 {
		if got := s.get(t, anyPath).status; got != http.StatusOK {
			t.Errorf("status %d", got)
		}
	}
}

func BenchmarkMemoryHitWithinALimit(b *testing.B) {
	h, _ := newChainProxy(b, proxy.Options{Web: web.Options{Limits: limits.Limits{Address: limits.Rate{Requests: 1e9, Per: time.Second, Burst: 1e9}}}})
	measure(b, h, anyPath, nothing)
}
