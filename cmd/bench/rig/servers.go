package rig

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
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
