package rig

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// An Nginx is one before other servers.
type Nginx struct {
	*Process
	Dir  string // of its own, in memory where Linux has it
	Addr string // for its configuration to listen on
}

// Nginx starts one with a configuration for its directory and address.
func (r *Rig) Nginx(ctx context.Context, configure func(dir, addr string) string) *Nginx {
	f := &Nginx{Dir: Must(os.MkdirTemp("/dev/shm", "tipcache-bench-nginx-")), Addr: FreeAddr()}
	r.OnStop(func() { _ = os.RemoveAll(f.Dir) })
	conf := filepath.Join(f.Dir, "conf")
	Check(os.WriteFile(conf, []byte(configure(f.Dir, f.Addr)), 0o600))
	directives := "daemon off; pid " + filepath.Join(f.Dir, "pid") + ";"
	if os.Getuid() == 0 { // otherwise its workers run as another user, who cannot write here
		directives += " user root;"
	}
	f.Process = r.Start(ctx, filepath.Base(f.Dir), nil, "nginx", "-p", f.Dir, "-e", "stderr", "-c", conf, "-g", directives)
	f.Ready(ctx, Accepts(f.Addr))
	return f
}

// Relay starts a process that passes connections on to a server, and returns its address.
// SIGSTOP of all of it is to clients what that of the server's own process is: the kernel
// still accepts connections, what is sent waits, and SIGCONT has it go on.
func (r *Rig) Relay(ctx context.Context, server string) (p *Process, addr string) {
	addr = FreeAddr()
	p = r.Start(ctx, "relay-"+Port(addr), nil, "socat", "TCP-LISTEN:"+Port(addr)+",bind=127.0.0.1,reuseaddr,fork,backlog=64,nodelay", "TCP:"+server+",nodelay")
	p.Ready(ctx, Accepts(addr))
	return p, addr
}

// Postgres starts a PostgreSQL with its default settings in the rig's
// directory, and returns the URL of an empty database.
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

// unprivileged is what to begin a command with whose files are in home:
// PostgreSQL refuses to be run by root, and is run by its Debian package's user then.
func (r *Rig) unprivileged(home string) []string {
	if os.Getuid() != 0 {
		return nil
	}
	u := Must(user.Lookup("postgres"))
	Check(os.Chown(home, Must(strconv.Atoi(u.Uid)), Must(strconv.Atoi(u.Gid))))
	Check(os.Chmod(r.Dir, 0o711)) // to be passed through, not listed
	return []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups", "--"}
}
