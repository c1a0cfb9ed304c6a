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

// A Failover is several servers of which another one takes over when the master
// ends.
type Failover struct {
	URL    string // what a replica of tipcache is told
	Master *Redis

	taken func(ctx context.Context) error // whether another one has taken over
}

// KillMaster ends the master and waits until another server has taken over.
func (f *Failover) KillMaster(ctx context.Context) {
	f.Master.Kill()
	Check(Eventually(ctx, f.taken))
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
	asked := redis.NewSentinelClient(&redis.Options{Addr: addrs[0]})
	r.OnStop(func() { _ = asked.Close() })
	Check(Eventually(ctx, func(ctx context.Context) error {
		m, err := asked.Master(ctx, "bench").Result()
		if err == nil && (m["num-slaves"] != "1" || m["num-other-sentinels"] != "2") {
			err = fmt.Errorf("the Sentinels know %s replicas and %s others", m["num-slaves"], m["num-other-sentinels"])
		}
		return err
	}))
	taken := func(ctx context.Context) error {
		at, err := asked.GetMasterAddrByName(ctx, "bench").Result()
		if err == nil && strings.Join(at, ":") == master.Addr {
			err = fmt.Errorf("the Sentinels still name %s", master.Addr)
		}
		return err
	}
	return &Failover{URL: "redis://" + strings.Join(addrs, ",") + "?master_name=bench", Master: master, taken: taken}
}

const sentinelConf = `sentinel monitor bench %s %s 2
sentinel down-after-milliseconds bench 1000
sentinel failover-timeout bench 5000
`

// Cluster starts three masters with a replica each. The master of a Failover is
// the one that has the slot of a key.
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
	logging.Disable() // it would tell of each failed dial
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ClusterStateReloadInterval: time.Second})
	r.OnStop(func() { _ = c.Close() })
	f := &Failover{URL: "redis://" + strings.Join(addrs, ",")}
	f.taken = func(ctx context.Context) error { return c.Set(ctx, key, 1, 0).Err() }
	Check(Eventually(ctx, f.taken))
	master := Must(c.MasterForKey(ctx, key)).Options().Addr
	f.Master = nodes[slices.Index(addrs, master)]
	f.Master.followed(ctx)
	return f
}

// followed waits until a replica has all that the master has.
func (s *Redis) followed(ctx context.Context) {
	Check(Eventually(ctx, func(ctx context.Context) error {
		text, err := s.Client.Info(ctx, "replication").Result()
		if err == nil && !strings.Contains(text, "state=online") {
			err = errors.New("the master has no replica yet")
		}
		return err
	}))
}
