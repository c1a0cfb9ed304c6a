package redis

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

func TestRedisURLSelectsKindOfClient(t *testing.T) {
	type target struct {
		Addrs              []string
		Master, User, Pass string
		DB                 int
		Cluster, TLS       bool
		ServerName         string
		SentinelUser       string
		SentinelPass       string
	}
	tests := []struct {
		name, url string
		want      target
	}{
		{"one host", "redis://h:1/2", target{Addrs: []string{"h:1"}, DB: 2}},
		{"default port", "redis://h", target{Addrs: []string{"h:6379"}}},
		{"credentials and TLS", "rediss://u:p@h:1", target{Addrs: []string{"h:1"}, User: "u", Pass: "p", TLS: true, ServerName: "h"}},
		{"several hosts with TLS", "rediss://a:1,b:2", target{Addrs: []string{"a:1", "b:2"}, TLS: true}},
		{"default port of several hosts", "redis://a,b,c:7000", target{Addrs: []string{"a:6379", "b:6379", "c:7000"}}},
		{"several hosts of a Cluster", "redis://a:1,b:2,c:3", target{Addrs: []string{"a:1", "b:2", "c:3"}}},
		{"one host of a Cluster", "redis://a:1?cluster=true", target{Addrs: []string{"a:1"}, Cluster: true}},
		{"database as a parameter", "unix:///run/redis.sock?db=5", target{Addrs: []string{"/run/redis.sock"}, DB: 5}},
		{"one name of all Sentinels with TLS", "rediss://a:1?master_name=m", target{Addrs: []string{"a:1"}, Master: "m", TLS: true}},
		{"credentials of Sentinels", "redis://:p@a:1?master_name=m&sentinel_username=s&sentinel_password=q", target{Addrs: []string{"a:1"}, Master: "m", Pass: "p", SentinelUser: "s", SentinelPass: "q"}},
		{"Sentinels of a master", "redis://:p@a:1,b:2/3?master_name=m", target{Addrs: []string{"a:1", "b:2"}, Master: "m", Pass: "p", DB: 3}},
	}
	for _, test := range tests {
		o := expect.Value(clientOptions(test.url, time.Second))(t)
		got := target{o.Addrs, o.MasterName, o.Username, o.Password, o.DB, o.IsClusterMode, o.TLSConfig != nil, "", o.SentinelUsername, o.SentinelPassword}
		if o.TLSConfig != nil {
			got.ServerName = o.TLSConfig.ServerName
		}
		expect.NoDiff(t, got, test.want, "%s", test.name)
		if o.PoolTimeout >= time.Second {
			t.Errorf("%s: PoolTimeout = %v, want less than the timeout of an operation", test.url, o.PoolTimeout)
		}
		if !o.ContextTimeoutEnabled {
			t.Errorf("%s: ContextTimeoutEnabled = false, want true", test.name)
		}
	}
}

func TestErrorOfRedisURLShowsNoPartOfAPassword(t *testing.T) {
	for _, url := range []string{"redis://user:77/secret@h:1", "redis://user:77@8/secret@h:1/0", "redis://user:77?secret@h:1"} {
		if _, err := Open(Options{Settings: Settings{URL: url}}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("error for %s = %v, want one without the password", url, err)
		}
	}
}

func TestClusterMapIsReloadedSoon(t *testing.T) {
	for _, url := range []string{"redis://a:1,b:2,c:3", "redis://a:1?cluster=true"} {
		o := expect.Value(clientOptions(url, time.Second))(t)
		client := newClient(o)
		defer client.Close()
		c, ok := client.(*redis.ClusterClient)
		if !ok || c.Options().ClusterStateReloadInterval > 5*time.Second {
			t.Errorf("client for %s = %T, want a Cluster client that reloads its state within 5 s", url, client)
		}
	}
}

// A dialCounter is a hook that counts connection attempts.
type dialCounter struct{ n atomic.Int32 }

func (d *dialCounter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d.n.Add(1)
		return next(ctx, network, addr)
	}
}

func (d *dialCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (d *dialCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// With more attempts, the request would fail with its deadline, which does not name the cause.
func TestRefusedConnectionEndsRequestAtOnce(t *testing.T) {
	client := newClient(expect.Value(clientOptions("redis://"+porttest.Address(t), time.Minute))(t))
	defer client.Close()
	var d dialCounter
	client.AddHook(&d)
	err := client.Ping(t.Context()).Err()
	if !errors.Is(err, syscall.ECONNREFUSED) || d.n.Load() != 1 {
		t.Errorf("Ping: %v after %d attempts, want ECONNREFUSED after 1", err, d.n.Load())
	}
}

func TestCredentialsEchoedByRedisAreRedacted(t *testing.T) {
	l := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					switch lines.Text() {
					case "auth":
						_, _ = io.WriteString(c, "+OK\r\n")
					case "hello", "client", "get":
						_, _ = io.WriteString(c, "-ERR wrong: AUTH tipcache secret-7c1f\r\n")
					}
				}
			}()
		}
	}()
	o := expect.Value(clientOptions("redis://tipcache:secret-7c1f@"+l.Addr().String(), time.Second))(t)
	client := newClient(o)
	defer client.Close()
	pipeline := client.Pipeline()
	queued := pipeline.Get(t.Context(), "k")
	_, failed := pipeline.Exec(t.Context())
	for name, err := range map[string]error{"command": client.Get(t.Context(), "k").Err(), "pipeline": failed, "command of the pipeline": queued.Err()} {
		if err == nil || strings.Contains(err.Error(), "secret-7c1f") || !strings.Contains(err.Error(), "***") {
			t.Errorf("%s: error = %v, want one without the password", name, err)
		}
	}
}

// The reply of a Sentinel does not show that Redis works.
func TestMasterThatSentinelsDoNotKnowIsAnOutage(t *testing.T) {
	for _, tt := range []struct {
		reply func(*server.Peer)
		want  string
	}{
		{(*server.Peer).WriteNull, `no Sentinel named the master "other": unknown name`},
		{func(c *server.Peer) { c.WriteError("NOAUTH Authentication required.") }, `no Sentinel named the master "other": NOAUTH Authentication required.`},
	} {
		sentinel := miniredis.RunT(t)
		expect.NoError(t, sentinel.Server().Register("SENTINEL", func(c *server.Peer, _ string, _ []string) { tt.reply(c) }))
		shared := expect.Value(Open(Options{Settings: Settings{URL: "redis://" + sentinel.Addr() + "?master_name=other", Timeout: 10 * time.Second}}))(t)
		for range failuresToOpen {
			_, err := shared.Read(t.Context(), "story-1", "k")
			if err == nil || err.Error() != tt.want {
				t.Errorf("Read = %v, want %s", err, tt.want)
			}
		}
		expect.Equal(t, shared.State(), "open", "state of the breaker")
		expect.NoError(t, shared.Close())
	}
}
