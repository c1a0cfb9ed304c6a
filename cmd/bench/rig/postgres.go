package rig

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
)

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
