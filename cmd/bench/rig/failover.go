package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// A Failover is several servers of which another one takes over when the master
// ends.
type Failover struct {
	URL    string // what a replica of tipcache is told
	Master *Redis

	taken func(ctx context.Context) error // whether another one has taken over
}

// KillMaster ends the master and waits until another server has taken over.
func (f *Failover) KillMaster(ctx context.Context) error {
	f.Master.Kill()
	return Eventually(ctx, f.taken)
}

// Sentinel starts a master, its replica and three Sentinels.
func (r *Rig) Sentinel(ctx context.Context) (*Failover, error) {
	master, err := r.Redis(ctx)
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(master.Addr)
	if _, err := r.Redis(ctx, "--replicaof", host+" "+port); err != nil {
		return nil, err
	}
	if err := master.followed(ctx); err != nil {
		return nil, err
	}
	var addrs []string
	for i := range 3 {
		file, err := r.File(fmt.Sprintf("sentinel-%s-%d.conf", port, i), fmt.Sprintf(sentinelConf, host, port))
		if err != nil {
			return nil, err
		}
		s, err := r.startRedis(ctx, "redis-server", file, "--sentinel", "--bind", "127.0.0.1")
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, s.Addr)
	}
	asked := redis.NewSentinelClient(&redis.Options{Addr: addrs[0]})
	r.OnStop(func() { _ = asked.Close() })
	f := &Failover{URL: "redis://" + strings.Join(addrs, ",") + "?master_name=bench", Master: master}
	f.taken = func(ctx context.Context) error {
		at, err := asked.GetMasterAddrByName(ctx, "bench").Result()
		if err == nil && strings.Join(at, ":") == master.Addr {
			err = fmt.Errorf("the Sentinels still name %s", master.Addr)
		}
		return err
	}
	return f, Eventually(ctx, func(ctx context.Context) error {
		m, err := asked.Master(ctx, "bench").Result()
		if err == nil && (m["num-slaves"] != "1" || m["num-other-sentinels"] != "2") {
			err = fmt.Errorf("the Sentinels know %s replicas and %s others", m["num-slaves"], m["num-other-sentinels"])
		}
		return err
	})
}

const sentinelConf = `sentinel monitor bench %s %s 2
sentinel down-after-milliseconds bench 1000
sentinel failover-timeout bench 5000
`

// Cluster starts three masters with a replica each. The master of a Failover is
// the one that has the slot of a key.
func (r *Rig) Cluster(ctx context.Context, key string) (*Failover, error) {
	var nodes []*Redis
	var addrs []string
	for range 6 {
		addr := FreeAddr()
		n, err := r.Redis(ctx, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-config-file", filepath.Base(r.Dir)+"-"+Port(addr)+".conf", "--cluster-port", Port(addr))
		if err != nil {
			return nil, err
		}
		nodes, addrs = append(nodes, n), append(addrs, n.Addr)
	}
	create := []string{"redis-cli", "--cluster", "create", "--cluster-replicas", "1", "--cluster-yes"}
	if _, err := Output(ctx, r.Dir, append(create, addrs...)...); err != nil {
		return nil, err
	}
	logging.Disable() // it would tell of each failed dial
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ClusterStateReloadInterval: time.Second})
	r.OnStop(func() { _ = c.Close() })
	f := &Failover{URL: "redis://" + strings.Join(addrs, ",")}
	f.taken = func(ctx context.Context) error { return c.Set(ctx, key, 1, 0).Err() }
	if err := Eventually(ctx, f.taken); err != nil {
		return nil, err
	}
	master, err := c.MasterForKey(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.Addr == master.Options().Addr {
			f.Master = n
		}
	}
	return f, f.Master.followed(ctx)
}

// followed waits until a replica has all that the master has.
func (s *Redis) followed(ctx context.Context) error {
	return Eventually(ctx, func(ctx context.Context) error {
		text, err := s.Client.Info(ctx, "replication").Result()
		if err == nil && !strings.Contains(text, "state=online") {
			err = errors.New("the master has no replica yet")
		}
		return err
	})
}
