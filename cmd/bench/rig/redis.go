package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// A Redis is a Redis server without persistence.
type Redis struct {
	*Process
	*redis.Client
	Addr string
}

// Redis starts a server with additional arguments of redis-server.
func (r *Rig) Redis(ctx context.Context, args ...string) *Redis {
	return r.startRedis(ctx, append([]string{"redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"}, args...)...)
}

func (r *Rig) startRedis(ctx context.Context, argv ...string) *Redis {
	s := &Redis{Addr: FreeAddr()}
	s.Process = r.Start(ctx, "redis-"+Port(s.Addr), nil, append(argv, "--port", Port(s.Addr), "--dir", r.Dir)...)
	s.Client = redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	r.OnStop(func() { _ = s.Client.Close() })
	s.Ready(ctx)
	return s
}

// URL returns the server's URL for redis.url.
func (s *Redis) URL() string { return "redis://" + s.Addr }

// Ready waits until the server answers.
func (s *Redis) Ready(ctx context.Context) {
	s.Process.Ready(ctx, func(ctx context.Context) error { return s.Ping(ctx).Err() })
}

// A Failover is a group of servers in which a replica takes over when the master dies.
type Failover struct {
	URL    string // for redis.url
	Master *Redis

	Taken func(ctx context.Context) error // returns nil once a replica has taken over
}

// Sentinel starts a master, its replica and three Sentinels.
func (r *Rig) Sentinel(ctx context.Context) *Failover {
	master := r.Redis(ctx)
	host, port, _ := net.SplitHostPort(master.Addr)
	r.Redis(ctx, "--replicaof", host+" "+port)
	master.followed(ctx)
	var addrs []string
	for i := range 3 {
		file := r.File(fmt.Sprintf("sentinel-%s-%d.conf", port, i), fmt.Sprintf(sentinelConf, host, port))
		addrs = append(addrs, r.startRedis(ctx, "redis-server", file, "--sentinel", "--bind", "127.0.0.1").Addr)
	}
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: addrs[0]})
	r.OnStop(func() { _ = sentinel.Close() })
	state := func(good func(m map[string]string) bool) func(context.Context) error {
		return func(ctx context.Context) error {
			m, err := sentinel.Master(ctx, "bench").Result()
			if err == nil && !good(m) {
				err = fmt.Errorf("the Sentinels report %v", m)
			}
			return err
		}
	}
	Check(Eventually(ctx, state(func(m map[string]string) bool { return m["num-slaves"] == "1" && m["num-other-sentinels"] == "2" })))
	return &Failover{
		URL: "redis://" + strings.Join(addrs, ",") + "?master_name=bench", Master: master,
		Taken: state(func(m map[string]string) bool { return m["ip"]+":"+m["port"] != master.Addr }),
	}
}

const sentinelConf = `sentinel monitor bench %s %s 2
sentinel down-after-milliseconds bench 1000
sentinel failover-timeout bench 5000
`

// Cluster starts three masters with a replica each. The master of the Failover
// holds the slot of a key.
func (r *Rig) Cluster(ctx context.Context, key string) *Failover {
	var nodes []*Redis
	var addrs []string
	for range 6 {
		port := Port(FreeAddr())
		n := r.Redis(ctx, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-config-file", filepath.Base(r.Dir)+"-"+port+".conf", "--cluster-port", port)
		nodes, addrs = append(nodes, n), append(addrs, n.Addr)
	}
	create := []string{"redis-cli", "--cluster", "create", "--cluster-replicas", "1", "--cluster-yes"}
	_ = Must(Output(ctx, r.Dir, append(create, addrs...)...))
	logging.Disable() // it would log each failed dial
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ClusterStateReloadInterval: time.Second})
	r.OnStop(func() { _ = c.Close() })
	f := &Failover{URL: "redis://" + strings.Join(addrs, ",")}
	f.Taken = func(ctx context.Context) error { return c.Set(ctx, key, 1, 0).Err() }
	Check(Eventually(ctx, f.Taken))
	master := Must(c.MasterForKey(ctx, key)).Options().Addr
	f.Master = nodes[slices.Index(addrs, master)]
	f.Master.followed(ctx)
	return f
}

// followed waits until a replica has synchronized with the master.
func (s *Redis) followed(ctx context.Context) {
	Check(Eventually(ctx, func(ctx context.Context) error {
		text, err := s.Info(ctx, "replication").Result()
		if err == nil && !strings.Contains(text, "state=online") {
			err = errors.New("the master has no replica yet")
		}
		return err
	}))
}
