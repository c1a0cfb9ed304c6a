package rig

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// Postgres starts a PostgreSQL with its default settings in the rig's
// directory, and returns the URL of an empty database.
func (r *Rig) Postgres(ctx context.Context) (url string, err error) {
	home, err := os.MkdirTemp(r.Dir, "postgres-")
	if err != nil {
		return "", err
	}
	as, err := r.unprivileged(home)
	if err != nil {
		return "", err
	}
	data, port := filepath.Join(home, "data"), Port(FreeAddr())
	if _, err := Output(ctx, r.Dir, append(as, "initdb", "-D", data, "-U", "tipcache", "-A", "trust", "-E", "UTF8", "--no-sync")...); err != nil {
		return "", err
	}
	p, err := r.Start(ctx, "postgres", nil, append(as, "postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")...)
	if err != nil {
		return "", err
	}
	url = "postgres://tipcache@127.0.0.1:" + port + "/postgres"
	return url, p.Ready(ctx, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// unprivileged is what to begin a command with whose files are in home:
// PostgreSQL refuses to be run by root, and is run by its Debian package's user then.
func (r *Rig) unprivileged(home string) ([]string, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL refuses to be run by root: %w", err)
	}
	uid, _ := strconv.Atoi(u.Uid) // numbers on Unix
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(home, uid, gid); err != nil {
		return nil, err
	}
	if err := os.Chmod(r.Dir, 0o711); err != nil { // to be passed through, not listed
		return nil, err
	}
	return []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups", "--"}, nil
}
