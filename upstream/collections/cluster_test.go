package collections_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
)

// cluster is the PostgreSQL server of this test run, started when first needed.
var cluster postgresCluster

type postgresCluster struct {
	once sync.Once
	url  string
	err  error
	dir  string // of a throwaway cluster; "" when the server is not ours
}

// postgresURL returns the URL of an empty schema. Without a server it skips.
func postgresURL(t testing.TB) string {
	t.Helper()
	cluster.once.Do(cluster.start)
	if cluster.err != nil {
		t.Skipf("no PostgreSQL: %v; name a server in %s or install one (initdb, pg_ctl)", cluster.err, postgrestest.Variable)
	}
	return postgrestest.SchemaOf(t, cluster.url)
}

func (c *postgresCluster) start() {
	if c.url = os.Getenv(postgrestest.Variable); c.url != "" {
		return
	}
	if c.dir, c.err = os.MkdirTemp("", "tipcache-postgres-"); c.err != nil {
		return
	}
	var port int
	if port, c.err = freePort(); c.err != nil {
		return
	}
	data := filepath.Join(c.dir, "data")
	if c.err = c.run("initdb", "-D", data, "-U", "tipcache", "-A", "trust", "-E", "UTF8", "--no-sync"); c.err != nil {
		return
	}
	settings := fmt.Sprintf("-p %d -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off", port)
	c.err = c.run("pg_ctl", "-D", data, "-l", filepath.Join(c.dir, "log"), "-o", settings, "-w", "start")
	c.url = fmt.Sprintf("postgres://tipcache:secret@127.0.0.1:%d/postgres", port)
}

// stop ends the server, if it is ours.
func (c *postgresCluster) stop() {
	if c.dir == "" {
		return
	}
	_ = c.run("pg_ctl", "-D", filepath.Join(c.dir, "data"), "-m", "immediate", "-w", "stop")
	_ = os.RemoveAll(c.dir)
}

// run runs a program of PostgreSQL, which refuses to be run by root.
func (c *postgresCluster) run(program string, args ...string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
		if len(installed) == 0 {
			return err
		}
		path = installed[len(installed)-1]
	}
	if os.Getuid() == 0 {
		if out, err := exec.Command("chown", "postgres", c.dir).CombinedOutput(); err != nil {
			return fmt.Errorf("chown: %w: %s", err, out)
		}
		path, args = "runuser", append([]string{"-u", "postgres", "--", path}, args...)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = c.dir
	// Not a pipe: the server would inherit it and keep it open.
	log, err := os.Create(filepath.Join(c.dir, program+".out"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s: %w: %s", program, err, said)
	}
	return nil
}

// freePort is below the ports that the kernel gives to connections, of which one
// might take it before the server does, and none that the tests of other packages use.
func freePort() (int, error) {
	for range 100 {
		port := 22_000 + rand.IntN(2_000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no port is free")
}
