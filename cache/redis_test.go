package cache_test

import (
	"cmp"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// A server is a running redis-server.
type server struct {
	addr string
	cmd  *exec.Cmd
}

// startRedis runs a redis-server until the test ends. It skips the test if redis-server is not installed.
func startRedis(t testing.TB, args ...string) *server {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("install redis-server on the PATH to run this test")
	}
	addr := porttest.Address(t)
	args = append([]string{"--port", portOf(addr), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, args...)
	s := &server{addr: addr, cmd: exec.Command(path, args...)}
	expect.NoError(t, s.cmd.Start())
	t.Cleanup(s.kill)
	rdb := client(t, s.addr)
	expect.Eventually(t, "Redis answers", func() bool { return rdb.Ping(t.Context()).Err() == nil })
	return s
}

func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// kill ends the server without a shutdown.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// client returns a client with the options that the cache requires.
func client(t testing.TB, addr string) *goredis.Client {
	t.Helper()
	rdb := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// newSharedCache returns a cache that shares Redis with other replicas. The default timeouts are long enough for a busy
// machine.
func newSharedCache(t testing.TB, rdb goredis.UniversalClient, o cache.Options, so redis.Options) *cache.Cache {
	t.Helper()
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	so.Now, so.Registerer, so.Timeout = o.Now, o.Registerer, cmp.Or(so.Timeout, time.Minute)
	o.FlightTimeout, o.Patience = cmp.Or(o.FlightTimeout, 5*time.Minute), cmp.Or(o.Patience, time.Minute)
	store := expect.Value(redis.New(rdb, so))(t)
	o.Shared = store
	return newCache(t, o)
}
