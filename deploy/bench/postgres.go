package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgres starts a PostgreSQL with its default settings in the bench's
// directory, and returns the URL of an empty database.
func (b *bench) postgres(ctx context.Context) (url string, err error) {
	home, err := os.MkdirTemp(b.dir, "postgres-")
	if err != nil {
		return "", err
	}
	as, err := b.unprivileged(home)
	if err != nil {
		return "", err
	}
	initdb, err := initdbTool.path()
	if err != nil {
		return "", err
	}
	server, err := postgresTool.path()
	if err != nil {
		return "", err
	}
	data := filepath.Join(home, "data")
	argv := slices.Concat(as, []string{initdb, "-D", data, "-U", "tipcache", "-A", "trust", "-E", "UTF8", "--no-sync"})
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = home
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port := strconv.Itoa(freePort())
	argv = slices.Concat(as, []string{server, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="})
	p, err := b.start(ctx, "postgres", argv...)
	if err != nil {
		return "", err
	}
	url = "postgres://tipcache@127.0.0.1:" + port + "/postgres"
	if err := connects(ctx, url); err != nil {
		return "", fmt.Errorf("PostgreSQL is not ready: %w%s", err, p.lastWords())
	}
	return url, nil
}

// unprivileged is what to begin a command with whose files are in home:
// PostgreSQL refuses to be run by root, and is run by its Debian package's user then.
func (b *bench) unprivileged(home string) ([]string, error) {
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
	if err := os.Chmod(b.dir, 0o711); err != nil { // to be passed through, not listed
		return nil, err
	}
	return []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups", "--"}, nil
}

// connects returns when a server takes connections, or after 30 s with an error.
func connects(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
