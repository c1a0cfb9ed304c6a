package collections_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// cluster is the PostgreSQL server of this test run. The first test that needs it starts it.
var cluster postgresCluster

type postgresCluster struct {
	once sync.Once
	url  string
	err  error
	dir  string // of a temporary server; "" if another process runs the server
}

// postgresURL returns the URL of an empty schema. It skips the test if there is no server.
func postgresURL(t testing.TB) string {
	t.Helper()
	cluster.once.Do(func() { cluster.start(t) })
	if cluster.err != nil {
		t.Skipf("no PostgreSQL: %v; name a server in %s or install one (initdb, pg_ctl)", cluster.err, postgrestest.Variable)
	}
	return postgrestest.SchemaOf(t, cluster.url)
}

func (c *postgresCluster) start(t testing.TB) {
	if c.url = os.Getenv(postgrestest.Variable); c.url != "" {
		return
	}
	if c.dir, c.err = os.MkdirTemp("", "tipcache-postgres-"); c.err != nil {
		return
	}
	data := filepath.Join(c.dir, "data")
	if c.err = c.run("initdb", "-D", data, "-U", "tipcache", "-A", "trust", "-E", "UTF8", "--no-sync"); c.err != nil {
		return
	}
	host, port, _ := net.SplitHostPort(porttest.Address(t)) // held until the server listens
	settings := fmt.Sprintf("-p %s -c listen_addresses=%s -c unix_socket_directories='' -c fsync=off", port, host)
	c.err = c.run("pg_ctl", "-D", data, "-l", filepath.Join(c.dir, "log"), "-o", settings, "-w", "start")
	c.url = fmt.Sprintf("postgres://tipcache:secret@%s:%s/postgres", host, port)
}

// stop ends the server if this test run started it.
func (c *postgresCluster) stop() {
	if c.dir == "" {
		return
	}
	_ = c.run("pg_ctl", "-D", filepath.Join(c.dir, "data"), "-m", "immediate", "-w", "stop")
	_ = os.RemoveAll(c.dir)
}

// run runs a program of PostgreSQL as user postgres if the tests run as root, because it refuses root.
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
	// The server would inherit a pipe and keep it open.
	log, err := os.Create(filepath.Join(c.dir, program+".out"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		output, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s: %w: %s", program, err, output)
	}
	return nil
}
