package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// An Nginx is an nginx in front of other servers.
type Nginx struct {
	*Process
	Dir  string // in memory
	Addr string // to listen on
}

// Nginx starts an nginx with the configuration that configure returns.
func (r *Rig) Nginx(ctx context.Context, configure func(dir, addr string) string) *Nginx {
	f := &Nginx{Dir: Must(os.MkdirTemp("/dev/shm", "tipcache-bench-nginx-")), Addr: FreeAddr()}
	r.OnStop(func() { _ = os.RemoveAll(f.Dir) })
	conf := filepath.Join(f.Dir, "conf")
	Check(os.WriteFile(conf, []byte(configure(f.Dir, f.Addr)), 0o600))
	directives := "daemon off; pid " + filepath.Join(f.Dir, "pid") + ";"
	if os.Getuid() == 0 { // otherwise the workers' user cannot write here
		directives += " user root;"
	}
	f.Process = r.Start(ctx, filepath.Base(f.Dir), nil, "nginx", "-p", f.Dir, "-e", "stderr", "-c", conf, "-g", directives)
	f.Ready(ctx, Accepts(f.Addr))
	return f
}

// Relay starts a process that forwards connections to a server, and returns its address. To clients, stopping it by
// SIGSTOP looks like stopping the server: the kernel still accepts connections and buffers requests.
func (r *Rig) Relay(ctx context.Context, server string) (p *Process, addr string) {
	addr = FreeAddr()
	p = r.Start(ctx, "relay-"+Port(addr), nil, "socat", "TCP-LISTEN:"+Port(addr)+",bind=127.0.0.1,reuseaddr,fork,backlog=64,nodelay", "TCP:"+server+",nodelay")
	p.Ready(ctx, Accepts(addr))
	return p, addr
}

// Postgres starts a PostgreSQL with default settings, and returns the URL of an empty database.
func (r *Rig) Postgres(ctx context.Context) (url string) {
	home := Must(os.MkdirTemp(r.Dir, "postgres-"))
	as, data, port := r.unprivileged(home), filepath.Join(home, "data"), Port(FreeAddr())
	_ = Must(Output(ctx, r.Dir, append(as, "initdb", "-D", data, "-U", "tipcache", "-A", "trust", "-E", "UTF8", "--no-sync")...))
	p := r.Start(ctx, "postgres", nil, append(as, "postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")...)
	url = "postgres://tipcache@127.0.0.1:" + port + "/postgres"
	p.Ready(ctx, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	return url
}

// unprivileged returns the arguments that run a command as the user of PostgreSQL's Debian package, which owns home,
// because PostgreSQL refuses to run as root.
func (r *Rig) unprivileged(home string) []string {
	if os.Getuid() != 0 {
		return nil
	}
	u := Must(user.Lookup("postgres"))
	Check(os.Chown(home, Must(strconv.Atoi(u.Uid)), Must(strconv.Atoi(u.Gid))))
	Check(os.Chmod(r.Dir, 0o711)) // traversable, not readable
	return []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups", "--"}
}

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
